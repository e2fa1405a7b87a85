"""Facts about this machine's GPUs, from files and tables; nothing here opens HIP."""
