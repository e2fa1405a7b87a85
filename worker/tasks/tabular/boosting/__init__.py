"""`model: gradient-boosting`: scikit-learn's histogram-based trees on a table."""
