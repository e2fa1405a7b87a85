"""`redkiln verify`: repeats an export's comparison with torch on this machine."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from redkiln.cli.command import Session, command
from redkiln.cli.exit_codes import ExitCode
from redkiln.cli.model.labelled_data import (
    LabelledData,
    is_test_split_of,
    is_what_trained,
    open_data,
)
from redkiln.cli.model.opening import ModelName, VariantName, find_model, needing_libraries
from redkiln.cli.view import words
from redkiln.cli.view.panel import metric_words
from redkiln.cli.view.render import Column, print_table
from redkiln.cli.view.transfers import waiting

if TYPE_CHECKING:
    from redkiln.predict.description import Description
    from redkiln.predict.labelled.score import DataScore
    from redkiln.predict.model import Model
    from redkiln.predict.verify import Verification
    from redkiln.views.comparison import Interval

MOST_NAMED = 5
"""Skipped samples that are named one by one."""
WORSE = (
    "The score is worse than on the test split, and chance does not explain it. This says nothing "
    "about the file, because new data may differ from the training data: in their source or, in "
    "a table, in their units."
)
"""What a much lower score on new data means."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "verify", rich_help_panel="Results", examples=(
        "redkiln verify last",
        "redkiln verify out/flowers/model.onnx --json",
        "redkiln verify flowers --data new-photos/",
        "redkiln verify flowers --data flowers-2026",
    ))(verify)  # fmt: skip


def verify(
    session: Session,
    model: ModelName,
    variant: VariantName = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", show_default=False,
                     help="Also score labelled data: a folder with a folder for each class, "
                     "with boxes (COCO) or with masks (PNG), a table, or the test split of a "
                     "data set of the service. Needs no parity.npz."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COLUMN", show_default=False,
                     help="Column of the table with the answers."),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--column", metavar="NAME", show_default=False,
                     help="Column of the table that has the texts."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="NAME", show_default=False,
                     help="Encoding of labels.csv if it is not UTF-8, and of tables and text files "
                     "that are neither Unicode nor Western European: cp1252, shift_jis, ..."),
    ] = None,
    signed_by: Annotated[
        str | None,
        typer.Option("--signed-by", metavar="KEY", show_default=False,
                     help="Key, or its id, that must have signed manifest.json; see "
                     "`redkiln keys signing`."),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="NAME", show_default=False,
                     help="Also run the file on an execution provider of ONNX Runtime, such as "
                     "cuda or migraphx."),
    ] = None,
    threads: Annotated[
        int, typer.Option("--threads", min=0, metavar="N", help="Threads; 0 for one on each core.")
    ] = 0,
) -> None:  # fmt: skip
    """Check an exported model against the trained model's outputs on this machine.

    The job saved real samples and these outputs in parity.npz, next to the
    model. Needs neither service nor PyTorch. The exit status is 5 if the file
    exceeds a limit of its job. A lower score on new data does not change it,
    because the data may differ; on the job's own test split it does.
    """
    with needing_libraries():
        from redkiln.predict.model import Model
        from redkiln.predict.verify import PARITY
        from redkiln.predict.verify import verify as run

        path = find_model(session, model, variant=variant)
        has_samples = path.with_name(PARITY).is_file()
        with waiting(session.notes, f"verifying {path}"):
            verdict = None
            # Without saved samples, labelled data are enough, unless the signature is asked for.
            if has_samples or not data or signed_by or provider:
                verdict = run(path, threads=threads, signed_by=signed_by, provider=provider)
            score, notes, is_test_split, caveat = None, [], False, None
            if data:
                with open_data(session, data) as found:
                    own = encoding if found.is_own else None
                    opened = Model(path, threads=threads, column=column, encoding=own)
                    score = _score(opened, found, target=target, encoding=own)
                    is_test_split = is_test_split_of(session, found, opened.description)
                    if found.is_own:
                        is_known = is_what_trained(found, opened.description)
                        caveat = _describe_caveat(opened.description, is_known=is_known)
                notes = opened.preparation.notes
    for note in notes:
        session.note(note)
    checked = Checked(path, verdict, score, is_test_split, caveat)
    if session.is_json:
        session.emit(_document(checked))
    else:
        _print(session, checked)
    if checked.is_verified is False:
        raise typer.Exit(ExitCode.UNVERIFIED)


@dataclass(frozen=True)
class Checked:
    """The findings about a file.

    Attributes:
        path: The ONNX file.
        verdict: Comparison with the saved outputs; None without saved samples.
        score: Score on labelled data; None without them.
        is_test_split: Whether these data are the job's test split, on which the file must score as
            recorded. On other data a model may be worse, whatever the file.
        caveat: Whether the model was trained on a user's files; None for other data.
    """

    path: Path
    verdict: "Verification | None"
    score: "DataScore | None"
    is_test_split: bool
    caveat: str | None = None

    @property
    def misses(self) -> list[str]:
        """What is wrong with the file."""
        own = self.score.miss if self.score and self.is_test_split else None
        return [*(self.verdict.misses if self.verdict else ()), *([own] if own else ())]

    @property
    def is_verified(self) -> bool | None:
        """Whether the file gives the job's answers; None if only new data were scored."""
        if self.verdict is None and not self.is_test_split:
            return None
        return not self.misses


def _score(
    model: "Model", data: LabelledData, *, target: str | None, encoding: str | None
) -> "DataScore":
    from redkiln.predict.labelled.score import score_data
    from redkiln.predict.verify import find_limits

    return score_data(
        model,
        data.path,
        stdin=sys.stdin.buffer,
        max_drop=find_limits(model.description).max_metric_drop,
        target=target or data.target,
        name=data.name,
        encoding=encoding,
    )


def _print(session: Session, checked: Checked) -> None:
    verdict, score = checked.verdict, checked.score
    if verdict:
        _print_verdict(session, verdict)
    else:
        session.say(
            f"{checked.path}: without parity.npz, only the score on your data is measured",
            is_prose=True,
        )
    if score:
        _print_score(session, score, is_test_split=checked.is_test_split)
        if checked.caveat:
            session.say(Text(checked.caveat, style="yellow"), is_prose=True)
    for miss in checked.misses:
        session.say(Text(f"Missed: {miss}", style="red"), is_prose=True)
    for suspicion in verdict.suspicions if verdict else ():
        session.say(f"Possible cause: {suspicion}", is_prose=True)
    session.say(_describe_outcome(checked), is_prose=True)


def _describe_caveat(known: "Description", *, is_known: bool) -> str:
    """Return a caution if a score on a user's files may not hold for new data."""
    counts: dict[str, int] = known.manifest.get("dataset", {}).get("counts") or {}
    if not is_known:
        return "If the model was trained on some of these samples, the score is too good."
    num, num_test = sum(counts.values()), counts.get("test", 0)
    return (
        f"The model was trained on these data: {num - num_test:,} of the {num:,} samples were in "
        "its training or validation split, so the score is too good."
    )


def _describe_outcome(checked: Checked) -> Text:
    from redkiln.predict.cpu import detect_cpu

    if checked.is_verified is None:
        text = (
            "The file was not checked: a score on new data cannot tell a wrong file from other "
            "data. Put the job's parity.npz next to the model."
        )
        return Text(text, style="yellow")
    cpu = checked.verdict.cpu if checked.verdict else detect_cpu()
    features = cpu["features"]
    kind = ", ".join(features) if isinstance(features, list) and features else "unknown features"
    where = f"on this CPU ({cpu['architecture']}: {kind})"
    if not checked.is_verified:
        return Text(f"UNVERIFIED {where}", style="bold red")
    if checked.verdict is None:
        what = "the file scores as recorded on the job's test split"
    else:
        what = f"the file gives {checked.verdict.framework}'s outputs for the saved samples"
    return Text(f"Verified {where}: {what}", style="green")


def _print_verdict(session: Session, verdict: "Verification") -> None:
    session.say(
        f"{verdict.description.path}: {verdict.num_samples:,} saved samples, "
        f"{verdict.num_test:,} of them from the test split",
        is_prose=True,
    )
    signer = verdict.signer
    signed = f"signed by {signer.key_id}" if signer else "not signed"
    session.say(f"manifest.json is {signed}")
    _print_leading(session, verdict.description)
    columns = (
        Column("ONNX Runtime"),
        Column("largest difference", is_right=True),
        Column("same answer", is_right=True),
        Column(metric_words(f"test/{verdict.metric_name}"), is_right=True),
    )
    metric = words.metric
    rows = [[verdict.framework, "", "", metric(verdict.metric_name, verdict.torch_metric)]]
    for name, way in verdict.ways.items():
        same = way.difference.agreement
        rows.append(
            [
                name,
                f"{way.difference.relative:.1e}",
                "" if same is None else words.percent(same),
                metric(verdict.metric_name, way.metric),
            ]
        )
    drop = 100 * verdict.limits.max_metric_drop
    is_error = verdict.metric_name == "rmse"
    allowed = f"{drop:g} % larger" if is_error else f"{drop:g} points lower"
    tolerance = verdict.limits.tolerance
    rows.append(["allowed", "" if tolerance is None else f"{tolerance:.1e}", "", allowed])
    print_table(session.out, columns, rows)
    if verdict.interval:
        low, high = map(words.percent, verdict.interval)
        session.say(f"95 % interval of the test accuracy: {low} to {high}")


def _print_leading(session: Session, known: "Description") -> None:
    """Print the test split's macro F1, where an accuracy says little."""
    value = known.manifest.get("metrics", {}).get("test/macro_f1")
    if not known.has_dominant_class or value is None:
        return
    ends = known.manifest.get("intervals", {}).get("test/macro_f1")
    session.say(
        f"Test macro f1 {words.metric('macro_f1', value)}{_sure('macro_f1', ends)}; one class "
        "dominates, so the accuracy below only compares the files",
        is_prose=True,
    )


def _print_score(session: Session, score: "DataScore", *, is_test_split: bool) -> None:
    name = score.metric_name
    known = ""
    if score.recorded is not None:
        recorded = words.metric(name, score.recorded)
        known = f"; the job's test split: {recorded}{_sure(name, score.recorded_interval)}"
    skipped = f", {len(score.skipped)} skipped" if score.skipped else ""
    title = metric_words(f"data/{name}").removeprefix("data ")
    session.say(
        f"{score.data}: {title} {words.metric(name, score.metric)} of "
        f"{words.plural(score.num_samples, 'sample')}{skipped}{_sure(name, score.interval)}{known}",
        is_prose=True,
    )
    if score.accuracy is not None and score.largest_share is None:
        session.say(f"All labels are right for {words.percent(score.accuracy)} of them")
    elif score.accuracy is not None and score.largest_share is not None:
        session.say(
            f"Accuracy {words.percent(score.accuracy)}; always answering the largest class of "
            f"these data gives {words.percent(score.largest_share)}",
            is_prose=True,
        )
    if score.doubted is not None:
        session.say(_describe_doubt(score), is_prose=True)
    elif score.miss is not None and not is_test_split:
        session.say(Text(WORSE, style="yellow"), is_prose=True)
    elif score.recorded is not None and not is_test_split:
        session.say(_describe_equal(score), is_prose=True)
    for one in score.skipped[:MOST_NAMED]:
        session.note(f"Skipped {one.name}: {one.reason}")
    if len(score.skipped) > MOST_NAMED:
        session.note(f"and {len(score.skipped) - MOST_NAMED} more; --json lists all of them")


def _sure(name: str, interval: "Interval | None") -> str:
    if interval is None:
        return ""
    low, high = (words.metric(name, value) for value in interval)
    return f", 95 % interval {low} to {high}"


def _describe_equal(score: "DataScore") -> str:
    """Return how a score compares that is not worse than chance explains."""
    assert score.recorded is not None
    difference = score.metric - score.recorded
    is_worse = difference > 0 if score.metric_name == "rmse" else difference < 0
    if not is_worse:
        return "The score is not worse than on the test split."
    return "The score is worse than on the test split, but chance may explain it."


def _describe_doubt(score: "DataScore") -> str:
    """Return why chance may explain a worse metric: one of the results is too uncertain."""
    assert score.recorded is not None
    name, is_recorded = score.metric_name, score.doubted == "recorded"
    found, recorded = (words.metric(name, value) for value in (score.metric, score.recorded))
    num, ends = (
        (score.num_recorded, score.recorded_interval)
        if is_recorded
        else (score.num_samples, score.interval)
    )
    assert ends is not None
    low, high = (words.metric(name, value) for value in ends)
    where = "" if num is None else f" on only {words.plural(num, 'sample')}"
    worse = "above" if name == "rmse" else "below"
    return (
        f"{found} is {worse} the job's {recorded}, but {recorded if is_recorded else found} was "
        f"measured{where} (95 % interval {low} to {high}), so chance may explain the difference."
    )


def _document(checked: Checked) -> dict[str, Any]:
    score, verdict = checked.score, checked.verdict
    known: dict[str, Any] = {
        "model": str(checked.path),
        "verified": checked.is_verified,
        "data": score
        and {**asdict(score), "is_test_split": checked.is_test_split, "caveat": checked.caveat},
    }
    if verdict is None:
        return known
    described = asdict(verdict)
    del described["description"]
    described["signer"] = verdict.signer and verdict.signer.model_dump()
    return {**known, "job_id": verdict.description.job_id, **described}
