"""Texts as tokens, batches of them, and the networks that read them."""
