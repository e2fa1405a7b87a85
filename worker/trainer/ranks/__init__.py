"""One job on several devices: a process for each, and what they agree on."""
