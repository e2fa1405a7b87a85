"""What files and tables say about this machine's GPUs, and their telemetry."""
