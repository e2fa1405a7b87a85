"""GPUs of the live workers, as one list."""
