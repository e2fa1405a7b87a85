"""What is known of the GPUs of this machine, from files and tables; nothing here opens HIP."""
