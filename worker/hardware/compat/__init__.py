"""Which card, kernel, driver, firmware, ROCm, torch, Python, wheel and image fit together.

`graph.toml` holds the edges, each with its source and date; `judge` compares a machine with them
and finds the smallest change that makes it fit. Nothing here opens a GPU or imports torch.
"""
