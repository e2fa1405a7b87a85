"""Whether GPUs work: self-test verdicts, exclusions, how processes died."""
