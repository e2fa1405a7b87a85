"""The audit log: which key changed what, or tried to."""
