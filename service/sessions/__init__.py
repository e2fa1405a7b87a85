"""Sessions of browsers: log in once with a key, then show a cookie."""
