"""How exported classifiers and regressions are scored, drawn and described."""
