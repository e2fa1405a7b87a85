"""Commands for the owner of an installation: keys, and announcements of jobs' ends."""
