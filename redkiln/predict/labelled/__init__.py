"""Scores a model on labelled data: classes, labels, numbers, boxes, and masks."""
