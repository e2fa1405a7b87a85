"""Child processes of the agent: their environment, warm spares, launching."""
