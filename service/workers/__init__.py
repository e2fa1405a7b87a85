"""Workers: registration, signs of life, and which jobs they can run."""
