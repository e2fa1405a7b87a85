"""A child process and its boundary: lifetime, event log, failures, threads, memory."""
