"""`bench --suite ai`: fixed networks, inference and training, with a score that has a formula."""
