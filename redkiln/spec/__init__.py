"""The job spec: what a user asks for, and the parts of it that tasks share."""
