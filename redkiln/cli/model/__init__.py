"""Commands that run an exported model on this machine: predict, verify."""
