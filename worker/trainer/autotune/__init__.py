"""What is measured on this machine before a job trains."""
