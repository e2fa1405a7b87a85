"""The command that opens the service's web page."""
