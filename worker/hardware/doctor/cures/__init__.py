"""Cures that the doctor can carry out itself, and the record of what has helped on this machine."""
