"""The web page: files that `make page` built from `page/`, served at `/`. It holds no data."""
