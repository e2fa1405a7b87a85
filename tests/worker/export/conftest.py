"""The tests of this room draw no figures, unless they say so."""

from tests.worker.figures import blank_figures

__all__ = ["blank_figures"]
