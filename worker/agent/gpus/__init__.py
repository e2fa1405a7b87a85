"""The GPUs of this host: which exist, which are usable, and which attempt has one."""
