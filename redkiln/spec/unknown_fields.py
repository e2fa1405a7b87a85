"""What to write instead of an unknown field: a near name, its right place, or another command."""

import difflib
from collections.abc import Mapping

from pydantic import BaseModel

from redkiln.nearest import find_nearest, suggest
from redkiln.spec.paths import list_paths

PUSH_OPTIONS = {
    "target": "target=NAME",
    "text": "text=NAME",
    "columns": "column=NAME=TYPE",
    "header": "header=true",
    "delimiter": "delimiter=CHAR",
    "encoding": "encoding=NAME",
    "decimal": "decimal=MARK",
    "missing": "missing=WORD",
    "classes": "class=NAME",
    "labels_separator": "labels_separator=CHAR",
    "skip_bad": "skip_bad=N",
}
"""Options of a data set that people write into a spec, as parameters of its upload."""
OF_OTHER_TASKS: Mapping[tuple[str, ...], str] = {
    ("model", "interface"): "the files of detectors and segmenters take images of the model's size;"
    " remove it. `redkiln predict` and the API take photos of any size and move boxes and masks"
    " back",
    ("training", "folds"): "only tables can be cross-validated; remove it",
}
"""Why a field is only in specs of other tasks."""
SIMILAR = 0.8
"""Likeness from which a name is a misspelling: `epoch` and `epochs` have 0.91."""


def explain_unknown_field(
    path: list[int | str],
    *,
    owner: type[BaseModel] | None,
    model: type[BaseModel],
    others: Mapping[str, type[BaseModel]],
) -> str:
    """Return a message on an unknown field.

    Args:
        path: Keys of the document that lead to the field.
        owner: Model that the field was written into; None if unknown.
        model: Model of the whole document.
        others: Models of documents of other kinds, by kind, such as the specs of other tasks.
    """
    name = str(path[-1])
    said = f"unknown field {name!r}"
    if len(path) == 1 and name in PUSH_OPTIONS and "dataset" in model.model_fields:
        request = f"POST /v1/datasets?{PUSH_OPTIONS[name]}"
        return f"{said}; it describes the data, so give it when pushing: {request}"
    if (why := OF_OTHER_TASKS.get(tuple(map(str, path)))) is not None:
        return f"{said}; {why}"
    known = list(owner.model_fields) if owner else []
    own_place = ".".join(map(str, path))
    elsewhere = [place for place in list_paths(model) if place != own_place]
    misplaced = [place for place in elsewhere if _leaf(place) == name]
    kinds = [kind for kind, other in others.items() if own_place in list_paths(other)]
    if kinds and not misplaced and own_place not in list_paths(model):
        return f"{said}; only jobs of {_join(kinds)} have it; remove it"
    meant = (
        misplaced
        or difflib.get_close_matches(name.lower(), known, n=1, cutoff=SIMILAR)
        or _find_similar(name, elsewhere)
        or _find_longer(name, known, elsewhere)
    )
    if not meant:
        return f"{said}{suggest(name, known)}"
    return f"{said}; did you mean {' or '.join(map(repr, meant[:2]))}?"


def _join(kinds: list[str]) -> str:
    return f"{', '.join(kinds[:-1])} and {kinds[-1]}" if len(kinds) > 1 else kinds[0]


def _find_similar(name: str, places: list[str]) -> list[str]:
    near = difflib.get_close_matches(name.lower(), map(_leaf, places), n=1, cutoff=SIMILAR)
    return [place for place in places if near and _leaf(place) == near[0]]


def _find_longer(name: str, known: list[str], places: list[str]) -> list[str]:
    """Return the places that begin with a name, unless the field's owner has a near name."""
    if find_nearest(name, known):
        return []
    return [place for place in places if _leaf(place).startswith(f"{name}_")]


def _leaf(place: str) -> str:
    return place.rpartition(".")[2]
