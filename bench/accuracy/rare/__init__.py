"""What jobs on tables with a rare class choose, measured."""
