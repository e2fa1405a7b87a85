"""One job on several devices: one process per device, and what they agree on."""
