"""What notebooks show: metrics as tables of pandas, and jobs while they run."""
