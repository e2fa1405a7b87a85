"""Results of the suite of networks that ship with their source, for `bench --compare`.

`cpu.json` is measured by this project; the others are figures that other people have published.
"""

from pathlib import Path

from redkiln.views.suite import SuiteResult, load_suite

FOLDER = Path(__file__).parent


def list_references() -> list[str]:
    """Return the names of all shipped results."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load_reference(name: str) -> SuiteResult | None:
    """Return a shipped result; None if the name is unknown."""
    return load_suite(FOLDER / f"{name}.json") if name in list_references() else None
