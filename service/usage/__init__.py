"""What takes space, and what can be deleted."""
