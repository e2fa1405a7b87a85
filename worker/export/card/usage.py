"""Parts of the code in a report that are the same for every task."""

SOFTMAX = """

def softmax(logits):
    odds = np.exp(logits - logits.max())
    return (odds / odds.sum()).tolist()
"""
"""A function of the snippet that turns one sample's logits into probabilities."""
