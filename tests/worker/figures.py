"""Figures that are not drawn, for tests that need only their files.

Drawing one takes 0.2 s of CPU time, and an export has three. Every kind of figure is drawn by a
test whose module overrides `blank_figures`, or inside `drawn`.
"""

import base64
from contextlib import contextmanager
from pathlib import Path

import pytest

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def save_pixel(_figure, path, **_options):
    Path(path).write_bytes(PIXEL)


def leave_layout(_figure, **_options):
    pass


class BlankFigures:
    """Saves a pixel instead of each figure."""

    def __init__(self, patch):
        from matplotlib.figure import Figure  # here, because few tests need matplotlib

        self._figure, self._patch = Figure, patch
        self._methods = {"savefig": save_pixel, "tight_layout": leave_layout}
        self._own = {name: getattr(Figure, name) for name in self._methods}
        self._set(self._methods)

    @contextmanager
    def drawn(self):
        """Draw figures meanwhile."""
        self._set(self._own)
        yield
        self._set(self._methods)

    def _set(self, methods):
        for name, method in methods.items():
            self._patch.setattr(self._figure, name, method)


@pytest.fixture(scope="module", autouse=True)
def blank_figures():
    with pytest.MonkeyPatch.context() as patch:
        yield BlankFigures(patch)
