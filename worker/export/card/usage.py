"""Parts of the code in a report that are the same for every task."""

SOFTMAX = """

def softmax(logits):
    odds = np.exp(logits - logits.max())
    return (odds / odds.sum()).tolist()
"""
"""A function of the snippet that turns one sample's logits into probabilities."""
LABELS = """
thresholds = json.loads(metadata["thresholds"])


def find_labels(probabilities):
    found = zip(classes, probabilities.tolist(), thresholds, strict=True)
    return {name: share for name, share, least in found if share >= least}
"""
"""A function of the snippet that returns the labels of one sample, with their probabilities."""
MAIN_IMAGES = """

if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(f"usage: python {sys.argv[0]} IMAGE [IMAGE ...]")
    for path in sys.argv[1:]:
        print(path, ANSWER)
```"""
"""The end of a snippet that answers for the images on its command line; `ANSWER` is replaced."""
