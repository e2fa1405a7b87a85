"""What a finished training leaves for its export, as data and in words."""
