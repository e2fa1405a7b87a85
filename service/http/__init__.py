"""HTTP itself: who may call, how errors look, how large a body may be, which parameters exist."""
