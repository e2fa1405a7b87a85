"""Names of what a segmenter's file and its saved samples hold."""

LOGITS = "logits"
"""Output (B, K, S, S) float32."""
CLASSES = "classes"
"""Output (B, S, S) uint8, the class with the highest logit."""
TARGETS = "masks"
"""The true masks in `parity.npz`, (N, S, S) uint8."""
