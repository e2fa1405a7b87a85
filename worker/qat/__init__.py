"""Quantisation-aware training by torchao: shared by the fine-tuning and the export."""
