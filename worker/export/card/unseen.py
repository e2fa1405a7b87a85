"""What the report's first sentence says of the test samples."""

from redkiln.views.result import CopiesInTest


def say_unseen(copies: CopiesInTest | None) -> str:
    """Return the sentence's end: which of the samples training has seen, and which are repeated.

    Args:
        copies: Test samples that are copies; None without any.
    """
    unseen = " that were not used for training."
    if copies is not None and copies.num_copies:
        unseen = f", of which at least {copies.num_copies:,} {copies.describe_known()}."
    if copies is None or not copies.num_repeated:
        return unseen
    return (
        f"{unseen} {copies.num_repeated:,} of the test {copies.noun} {copies.describe_repeated()}."
    )
