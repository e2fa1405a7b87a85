"""Chooses the task, the target, the text column, and each column's type."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import ColumnUse, TableOptions, TableTask
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.layout import SPLITS
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.quality.columns import ON_REQUEST
from service.datasets.inspect.report import problem, quote_use, refuse, show
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.value_types.mixed import refuse_mixed
from service.datasets.inspect.tables.value_types.names import MAX_FEW, has_too_many, is_id
from service.datasets.inspect.tables.value_types.unread import (
    NOT_USED,
    Form,
    advise,
    find_unread_form,
    note_forms,
)
from service.datasets.inspect.tables.value_types.words_for_none import (
    WordsForNone,
    find_words_for_none,
)

_TARGETS = (
    "target", "label", "labels", "class", "classes", "category", "y", "outcome", "species",
    "sentiment", "diagnosis", "is_spam", "spam", "survived", "response", "price",
)  # fmt: skip
"""Usual names of target columns, most likely first."""
_TEXTS = (
    "text", "sentence", "message", "sms", "content", "review", "comment", "tweet", "question",
    "body", "document", "title", "description", "headline", "utterance", "query",
)  # fmt: skip
_SPLIT_NAMES = ("split", "subset", "partition")
PROSE_WORDS = 3.0
"""Mean number of words per value from which a column counts as prose."""
MIXED_SHARE = 0.8
"""Share of numbers from which other values in a column are considered mistakes."""
_USED = {
    "ignored": NOT_USED,
    "target": "taken as classes",
    "categorical": "used as categories",
    "text": "used as categories",
}
"""What notes say about the use of a column."""
NUMBERS_ROWS = "it only numbers the rows"
NEARLY_CONSTANT = "at least 99.5 % of the rows have the same value"
_LAST_RESORT = {NUMBERS_ROWS, NEARLY_CONSTANT}
"""Why columns are ignored that are used if the table has no others."""


@dataclass(frozen=True)
class Use:
    """The use of a column; `note` says why it is ignored."""

    type: Literal["numeric", "categorical", "text", "ignored", "target", "split"]
    note: str | None = None


@dataclass
class Roles:
    """The role of each column of a table.

    Attributes:
        task: Task that the data set is for.
        target: The column to predict.
        uses: Uses of all columns, in the file's order.
        notes: Notes on inferred options, and how to change them.
        words_for_none: The words that mean a missing value somewhere in the table.
        mixed: Columns of mostly numbers with too many other values.
        guess: Why the target was taken; empty if the user named it.
    """

    task: TableTask
    target: str
    uses: dict[str, Use]
    notes: list[str] = field(default_factory=list)
    problems: list[DatasetProblem] = field(default_factory=list)
    words_for_none: WordsForNone = field(default_factory=WordsForNone)
    mixed: list[Profile] = field(default_factory=list)
    guess: str = ""

    def of_type(self, *types: str) -> list[str]:
        """Return the names of the columns of these types."""
        return [name for name, use in self.uses.items() if use.type in types]

    def replace(self, name: str, use: Use, derived: dict[str, Use]) -> None:
        """Change a column's use, and put the columns derived from it after it."""
        uses: dict[str, Use] = {}
        for other, known in self.uses.items():
            uses |= {other: use, **derived} if other == name else {other: known}
        self.uses = uses


def find_split_column(
    profiles: dict[str, Profile], options: TableOptions, *, locate: Callable[[int], str]
) -> str | None:
    """Find the column that assigns rows to splits (`train`, `test`, `validation`), if any.

    Raises:
        Refused: A column has `train` and `test`, but also rows with another value or none.
    """
    for name, found in profiles.items():
        is_taken = name in options.columns or name in (options.target, options.text)
        if is_taken or name.casefold() not in _SPLIT_NAMES or found.numbers is not None:
            continue
        values = found.texts.unique().drop_null().to_pylist()
        splits = {SPLITS.get(value.casefold()) for value in values}
        if "train" in splits and "test" in splits:
            _check_splits(found, values, locate)
        if None not in splits and "train" in splits and not found.is_missing.any():
            return name
    return None


def _check_splits(found: Profile, values: Sequence[str], locate: Callable[[int], str]) -> None:
    """Refuse a split column with an unknown value, which would make its other splits ignored."""
    known = pa.array([value for value in values if value.casefold() in SPLITS], pa.string())
    unknown = np.flatnonzero(~pc.is_in(found.texts, value_set=known).to_numpy())
    if not len(unknown):
        return
    row, name = int(unknown[0]), show(found.name)
    word = found.example(row).strip()
    what = f"has {word!r}" if word else "has no value"
    rows = "1 row" if len(unknown) == 1 else f"{len(unknown)} rows"
    message = (
        f"column {name!r} assigns the rows to training and testing, but this row {what} ({rows} in "
        f"total); use one of {', '.join(SPLITS)}, or set "
        f"column={quote_use(name, 'categorical')} or column={quote_use(name, 'ignored')}"
    )
    raise refuse("unknown_split", message, locate(row))


def choose_roles(
    profiles: dict[str, Profile],
    options: TableOptions,
    *,
    split: str | None,
    locate: Callable[[int], str],
    limits: Limits,
) -> Roles:
    """Choose the roles of a table's columns: as the user set them, else the most likely ones.

    Args:
        profiles: Profiles of all columns, in the file's order.
        options: The user's options.
        split: Name of the column that assigns rows to splits.
        locate: Function that returns the place of the row with an index.
        limits: Limits of the inspection.
    """
    free = {name: found for name, found in profiles.items() if name != split}
    target, guess, target_note = _choose_target(free, options)
    notes = [f"{target_note}; to change it: target=NAME"] if target_note else []
    text = _choose_text(free, options, target=target)
    task, task_note = _choose_task(free[target], options, text=text, has_others=len(free) > 2)
    if task_note:
        notes.append(task_note)
    roles = Roles(task, target, {}, notes, guess=guess)
    if task == "text-classification" and text is None:
        roles.problems.append(_no_text(free, target))
    for name, found in profiles.items():
        roles.uses[name] = _choose_use(found, options, roles, text=text, split=split, limits=limits)
    roles.words_for_none = _find_words(free, options, roles)
    if roles.task != "text-classification":
        inferred = [found for name, found in profiles.items() if name not in options.columns]
        roles.notes += _note_unread(inferred, roles.uses)
    if roles.task == "tabular-classification" and options.task is None:
        roles.notes += _note_repeated(profiles, roles)
    roles.problems += refuse_mixed(roles.mixed, locate=locate, words_for_none=roles.words_for_none)
    return roles


def _find_words(profiles: dict[str, Profile], options: TableOptions, roles: Roles) -> WordsForNone:
    """Find the words for a missing value; those that the user chose are not categories."""
    mixed = [found.name for found in roles.mixed]
    categories = [name for name in roles.of_type("categorical") if name not in mixed]
    numbers = [*roles.of_type("numeric"), *mixed]
    (numbers if roles.task == "tabular-regression" else categories).append(roles.target)
    chosen = categories if options.missing is None else []
    return find_words_for_none(profiles, categories=chosen, numbers=numbers)


def _note_unread(columns: Sequence[Profile], uses: dict[str, Use]) -> list[str]:
    """Return notes on columns of numbers or dates in a form that is not read, a note a form."""
    alike: dict[tuple[str, str], dict[str, Form]] = {}
    for found in columns:
        how = _USED.get(uses[found.name].type)
        is_number = found.share_of_numbers >= MIXED_SHARE
        form = None if is_number or how is None else find_unread_form(found.texts)
        if form is not None and how is not None:
            alike.setdefault((form.meaning, how), {})[found.name] = form
    return [
        note_forms(forms, used=how, is_target=how == _USED["target"])
        for (_, how), forms in alike.items()
    ]


def _note_repeated(profiles: dict[str, Profile], roles: Roles) -> list[str]:
    """Return a note on a column of sentences that repeat too often for a column of texts."""
    names = roles.of_type("numeric", "categorical", "text")
    prose = [
        name
        for name in names
        if profiles[name].numbers is None and profiles[name].mean_words >= PROSE_WORDS
    ]
    named = [name for name in prose if name.casefold() in _TEXTS] or prose
    if len(named) != 1 or (len(names) > 1 and named[0].casefold() not in _TEXTS):
        return []
    found = profiles[named[0]]
    note = (
        f"column {show(found.name)} has sentences, but only {found.num_distinct:,} different ones "
        f"in {found.num_present:,} rows, so the task is not text-classification; to classify its "
        f"texts: text={shlex.quote(show(found.name))}"
    )
    return [note]


def require_features(roles: Roles, profiles: dict[str, Profile]) -> None:
    """Add a problem if no column is left to train on."""
    if not roles.of_type("numeric", "categorical", "text"):
        # Rather than refuse the table, use columns like 1, 2, 3...
        for name in [name for name, use in roles.uses.items() if use.note in _LAST_RESORT]:
            is_number = profiles[name].numbers is not None
            roles.uses[name] = Use("numeric" if is_number else "categorical")
    if not roles.of_type("numeric", "categorical", "text") and not roles.problems:
        roles.problems.append(_no_features(roles, profiles))


def _no_features(roles: Roles, profiles: dict[str, Profile]) -> DatasetProblem:
    ignored = [name for name, use in roles.uses.items() if use.type == "ignored"]
    reasons = "; ".join(
        f"{show(name)} is ignored ({roles.uses[name].note})" for name in ignored[:10]
    )
    words = [name for name in ignored if profiles[name].numbers is None]
    forms = {name: find_unread_form(profiles[name].texts) for name in ignored}
    unread = [f"{show(name)} has {advise(form)}" for name, form in forms.items() if form]
    remedy = "; ".join(unread) or "add a column that describes the rows"
    words = [name for name in words if forms[name] is None]
    if words:
        name = show(max(words, key=lambda name: profiles[name].mean_words))
        remedy = (
            f"if {name} is a text to classify, set text={shlex.quote(name)}; "
            f"to use it as categories, column={quote_use(name, 'categorical')}"
        )
    return problem("no_features", f"no column is left to train on: {reasons}; {remedy}")


def _choose_target(profiles: dict[str, Profile], options: TableOptions) -> tuple[str, str, str]:
    """Return the target, why it was taken if this is a guess, and the note on it."""
    if options.target is not None:
        return options.target, "", ""
    free = [name for name in profiles if name != options.text_column]
    free = [name for name in free if name not in options.columns] or free or list(profiles)
    by_name = {name.casefold(): name for name in reversed(free)}
    named = next((by_name[known] for known in _TARGETS if known in by_name), None)
    if named is not None:
        return named, "of its name", f"the target is column {show(named)}"
    last = free[-1]
    short = [name for name in free if profiles[name].mean_words < PROSE_WORDS]
    if short and last not in short:
        last = min(short, key=lambda name: profiles[name].num_distinct)
        guess = "it has the fewest different values"
        return last, guess, f"the target is column {show(last)}, which {guess.removeprefix('it ')}"
    return last, "it is the last one", f"the target is the last column, {show(last)}"


def _choose_text(profiles: dict[str, Profile], options: TableOptions, *, target: str) -> str | None:
    """Return the text column for text classification; None for the tabular tasks."""
    if options.text_column is not None:
        return options.text_column
    if options.task not in (None, "text-classification"):
        return None
    others = [
        name for name in profiles if name != target and options.columns.get(name) in (None, "text")
    ]
    prose = [name for name in others if _is_prose(profiles[name])]
    if options.task == "text-classification":
        words = [name for name in others if profiles[name].numbers is None]
        named = [name for name in words if name.casefold() in _TEXTS]
        best = named or prose or words
        return max(best, key=lambda name: profiles[name].mean_words) if best else None
    if not prose or any(use != "ignored" for use in options.columns.values()):
        return None
    if _is_amount(profiles[target]) and options.labels_separator is None:
        return None
    named = [name for name in prose if name.casefold() in _TEXTS]
    is_alone = all(name in prose or _is_useless(profiles[name]) for name in others)
    if named or is_alone:
        return max(named or prose, key=lambda name: profiles[name].mean_words)
    return None


def _is_prose(found: Profile) -> bool:
    return (
        found.numbers is None
        and found.mean_words >= PROSE_WORDS
        and found.num_distinct > found.num_present / 2
    )


def _is_useless(found: Profile) -> bool:
    if found.num_distinct < 2 or is_id(found):
        return True
    are_words = found.share_of_numbers < MIXED_SHARE and found.mean_words < PROSE_WORDS
    return are_words and has_too_many(found)


def _choose_task(
    target: Profile, options: TableOptions, *, text: str | None, has_others: bool
) -> tuple[TableTask, str | None]:
    if options.task is not None:
        return cast("TableTask", options.task), None
    if text is not None:
        note = f"column {show(text)} is prose, so the task is text-classification"
        more = " (task=tabular-classification also uses the other columns)" if has_others else ""
        return "text-classification", f"{note}; to change it: task=NAME{more}"
    if options.classes is not None or options.labels_separator is not None:
        return "tabular-classification", None
    name, reason = "tabular-classification", f"{target.num_distinct} different values"
    if _is_amount(target):
        name, reason = "tabular-regression", f"{target.num_distinct} different numbers"
    note = f"the target has {reason}, so the task is {name}; to change it: task=NAME"
    return cast("TableTask", name), note


def _is_amount(target: Profile) -> bool:
    """Return whether a target is an amount rather than a class, ignoring some bad values."""
    most = max(2, min(MAX_FEW, target.num_present // 5))
    is_whole = target.are_integers or target.are_long
    is_few = is_whole and target.num_distinct <= most
    return target.share_of_numbers >= MIXED_SHARE and not is_few and target.num_distinct > 2


def _no_text(profiles: dict[str, Profile], target: str) -> DatasetProblem:
    names = [name for name in profiles if name != target]
    if names:
        message = (
            f"text-classification needs a text column, but all columns contain numbers "
            f"({', '.join(map(show, names[:10]))}); set text=NAME or choose a tabular task"
        )
    else:
        message = "text-classification needs a text column, but the table has only the target"
    return problem("no_text", message)


def _choose_use(
    found: Profile,
    options: TableOptions,
    roles: Roles,
    *,
    text: str | None,
    split: str | None,
    limits: Limits,
) -> Use:
    if found.name == roles.target:
        return Use("target")
    if found.name == split:
        return Use("split")
    if roles.task == "text-classification":
        is_text = found.name == text
        return Use("text") if is_text else Use("ignored", "text-classification uses one column")
    asked: ColumnUse | None = options.columns.get(found.name)
    if asked == "ignored":
        return Use("ignored", ON_REQUEST)
    if asked is not None:
        return Use(asked)
    return _infer_use(found, roles, limits=limits)


def _infer_use(found: Profile, roles: Roles, *, limits: Limits) -> Use:
    if not found.num_present:
        return Use("ignored", "it has no value in any row")
    if is_id(found):
        return Use("ignored", NUMBERS_ROWS)
    if found.num_distinct < 2 and not found.is_missing.any():
        return Use("ignored", "it has the same value in every row")
    share = found.share_of_numbers
    num_wrong = int(found.is_not_number.sum())
    is_skipped = share >= MIXED_SHARE and num_wrong <= (limits.max_skipped or 0)
    if (share >= 1 - limits.max_skipped_fraction and share > 0) or is_skipped:
        return Use("numeric")
    if share >= MIXED_SHARE:
        roles.mixed.append(found)
        return Use("categorical")
    if has_too_many(found):
        if found.mean_words >= PROSE_WORDS:
            return Use("text")
        form = find_unread_form(found.texts)
        if form is not None:
            return Use("ignored", f"it has {form.meaning}")
        return Use("ignored", f"it has {found.num_distinct} different values (names or ids)")
    return Use("categorical")
