"""What the two tabular tasks share."""
