"""What a script may touch and use, and how it is held to that."""
