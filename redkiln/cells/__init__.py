"""How the cells of users' files are read: the same words and labels on every side."""
