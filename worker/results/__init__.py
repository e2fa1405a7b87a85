"""The results of a training that its export reads, as data and as text."""
