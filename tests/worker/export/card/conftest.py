"""The tests of this room draw figures."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def blank_figures():
    """Does nothing: the figures are drawn."""
