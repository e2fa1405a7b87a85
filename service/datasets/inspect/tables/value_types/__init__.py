"""What the values of a column are: prose, amounts with a unit, codes, or dates."""
