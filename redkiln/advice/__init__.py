"""Advice of the service, written for people who use the command line or Python."""
