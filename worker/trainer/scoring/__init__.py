"""How a split is scored, and which score is better."""
