"""`redkiln run`: programs of the user, on the queue or on this machine."""
