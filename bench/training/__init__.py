"""What training costs and learns: speed of the loop, accuracy, decoding, checkpoints."""
