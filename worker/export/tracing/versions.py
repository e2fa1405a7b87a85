"""Which releases of the exporter have been tested with our changes to it.

The changes replace functions that torch and onnxscript do not document. With other releases nothing
is replaced, and an export takes longer.
"""

from importlib.metadata import version

TESTED = {"torch": ("2.13.", "2.14."), "onnxscript": ("0.7.",)}


def is_tested() -> bool:
    """Return whether the installed torch and onnxscript are among the tested releases."""
    return all(version(name).startswith(releases) for name, releases in TESTED.items())
