"""What the tasks that train on images share: resolving, opening, measuring, and exporting pixels.

It is not a task. The three tasks with images build on it, so that each contains only what differs.
"""
