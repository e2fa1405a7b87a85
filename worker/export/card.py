"""`report.md`: the model card, for a person who was not there when the model was trained."""

from typing import Any

from pydantic import BaseModel

from redkiln.hardware import PatchOutcome
from worker.export.confusion import ClassScore
from worker.trainer.evidence import describe_work
from worker.trainer.findings import FirstSteps, describe_finding

USAGE = """```python
import json

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession("model.onnx")
metadata = session.get_modelmeta().custom_metadata_map
classes = json.loads(metadata["classes"])
size, mode = {size}, "{mode}"


def predict(path):
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I"):  # 16-bit grey
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("P", "PA", "LA", "RGBA") or "transparency" in image.info:  # onto black
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    image = image.convert(mode)
    image = {resize}
    pixels = np.asarray(image, dtype=np.float32).reshape(size, size, {channels}) / 255
    images = pixels.transpose(2, 0, 1)[np.newaxis]  # (1, {channels}, {size}, {size}) in [0, 1]
    (logits,) = session.run(["logits"], {{"images": images}})
    return classes[int(logits[0].argmax())]
```"""

RESIZE_CODE = {
    "stretch": "image.resize((size, size), Image.Resampling.BILINEAR)",
    "crop": "ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)",
    "pad": "ImageOps.pad(image, (size, size), Image.Resampling.BILINEAR, color=0)",
}


class CardFacts(BaseModel):
    """All that the card tells.

    Attributes:
        parity: `worker.export.parity.Difference` as JSON.
        scores: of each class on the test split.
        confusions: most frequent mistakes (true, predicted, count).
    """

    job_name: str
    job_id: str
    dataset: str
    dataset_notes: list[str]
    fingerprint: str
    classes: list[str]
    counts: dict[str, int]
    held_out_test: bool
    spec: dict[str, Any]
    num_parameters: int
    best_epoch: int
    best_step: int
    steps: int
    epochs: int
    metrics: dict[str, float]
    parity: dict[str, Any]
    gate: dict[str, float]
    verified: bool
    misses: list[str]
    model_file: dict[str, Any]
    scores: list[ClassScore]
    confusions: list[tuple[str, str, int]]
    preprocessing: dict[str, Any]
    environment: dict[str, Any]
    first_steps: FirstSteps | None = None
    advice: list[str] = []
    seconds: dict[str, float]


def render_card(facts: CardFacts) -> str:
    """The card as Markdown."""
    sections = [
        _summary(facts),
        _results(facts),
        _usage(facts),
        _data(facts),
        _training(facts),
        _verification(facts),
        _environment(facts),
    ]
    return "\n\n".join(sections) + "\n"


def _summary(facts: CardFacts) -> str:
    model = facts.spec["model"]["name"]
    options = facts.spec["model"]["options"]
    if facts.verified:
        state = "**Verified**: ONNX Runtime gives what torch gives, within the job's tolerance."
    else:
        state = "**Unverified**: " + "; ".join(facts.misses) + "."
    kind = "grey" if options["channels"] == 1 else "RGB"
    return (
        f"# {facts.job_name}\n\n"
        f"{model} ({facts.num_parameters:,} parameters) that tells {len(facts.classes)} classes of "
        f"{options['image_size']}x{options['image_size']} {kind} images apart, trained on "
        f"`{facts.dataset}`.\n\n"
        f"Test accuracy **{facts.metrics['test/accuracy']:.2%}** on {facts.counts['test']:,} "
        f"images that training never saw.\n\n{state}"
    )


def _results(facts: CardFacts) -> str:
    rows = "\n".join(
        f"| {_escape(score.name)} | {score.num:,} | {_percent(score.precision)} "
        f"| {_percent(score.recall)} | {_percent(score.f1)} |"
        for score in facts.scores
    )
    metrics = "\n".join(
        f"| {name} | {value:.4f} |" for name, value in sorted(facts.metrics.items())
    )
    text = (
        "## Results\n\n"
        "The test split was scored once, after the best epoch was chosen on the validation "
        "split.\n\n"
        f"| metric | value |\n|---|---|\n{metrics}\n\n"
        "| class | test images | precision | recall | F1 |\n|---|---|---|---|---|\n"
        f"{rows}\n\n"
        "![curves](curves.png)\n\n![confusion](confusion.png)"
    )
    if facts.confusions:
        worst = ", ".join(
            f"{_escape(true)} taken for {_escape(predicted)} ({count})"
            for true, predicted, count in facts.confusions
        )
        text += f"\n\nMost frequent mistakes: {worst}."
    return text


def usage_code(options: dict[str, Any]) -> str:
    """A runnable snippet that brings an image to the model as training did.

    Args:
        options: `model.options` of the resolved spec.
    """
    return USAGE.format(
        size=options["image_size"],
        mode="L" if options["channels"] == 1 else "RGB",
        channels=options["channels"],
        resize=RESIZE_CODE[options["resize"]],
    )


def _usage(facts: CardFacts) -> str:
    return (
        "## Use\n\n"
        "`model.onnx` takes `images`, float32 (batch, channels, height, width) in [0, 1]; any "
        "batch size. Normalisation is inside. It gives `logits` (batch, classes); class names are "
        "in its metadata.\n\n"
        f"{usage_code(facts.spec['model']['options'])}"
    )


def _data(facts: CardFacts) -> str:
    counts = ", ".join(f"{num:,} {split}" for split, num in facts.counts.items())
    lines = [
        f"- Data set `{facts.dataset}`, fingerprint `{facts.fingerprint}`",
        f"- Images: {counts}",
        f"- Classes: {', '.join(_escape(name) for name in facts.classes)}",
    ]
    if facts.held_out_test:
        lines.append(
            "- The data set has no test split of its own; a tenth of each class was held out."
        )
    lines += [f"- {_escape(note)}" for note in facts.dataset_notes]
    preprocessing = facts.preprocessing
    lines.append(
        f"- Preprocessing: {preprocessing['resize']} to {preprocessing['size']} pixels "
        f"({preprocessing['resampling']}), {preprocessing['channel_order']}; mean "
        f"{_numbers(preprocessing['mean'])}, std {_numbers(preprocessing['std'])} of the "
        "training split"
    )
    return "## Data\n\n" + "\n".join(lines)


def _training(facts: CardFacts) -> str:
    training = facts.spec["training"]
    optimizer, augment = training["optimizer"], training["augment"]
    settings = ", ".join(f"{k} {v}" for k, v in optimizer.items() if k != "name")
    changes = ", ".join(f"{k} {v}" for k, v in augment.items() if v) or "none"
    seconds = ", ".join(f"{phase} {value:.1f} s" for phase, value in facts.seconds.items())
    return (
        "## Training\n\n"
        f"- {facts.epochs} epochs, {facts.steps:,} steps of {training['batch_size']} images"
        f"{_micro_steps(training['accumulation'])}, {training['precision']}\n"
        f"- {optimizer['name']} ({settings}), {training['schedule']['name']} schedule, label "
        f"smoothing {training['label_smoothing']}, seed {training['seed']}\n"
        f"- Augmentation: {changes}\n"
        f"- Best epoch {facts.best_epoch} (step {facts.best_step:,})\n"
        f"- Time: {seconds}" + "".join(f"\n- Faster: {_escape(text)}" for text in facts.advice)
    )


def _micro_steps(accumulation: int) -> str:
    return f" (in {accumulation} micro steps each)" if accumulation > 1 else ""


def _verification(facts: CardFacts) -> str:
    parity, gate, file = facts.parity, facts.gate, facts.model_file
    drop = facts.metrics["test/accuracy"] - facts.metrics["test/accuracy_onnx"]
    return (
        "## Verification\n\n"
        f"ONNX Runtime against torch on {parity['num_samples']:,} images of the data set, in "
        "batches of another size than the exported example's.\n\n"
        "| | found | allowed |\n|---|---|---|\n"
        f"| largest difference, relative to the largest output | {parity['relative']:.2e} "
        f"| {gate['tolerance']:.2e} |\n"
        f"| largest difference | {parity['max_abs']:.2e} | |\n"
        f"| same class | {parity['agreement']:.2%} | |\n"
        f"| accuracy lost under ONNX Runtime | {drop:.4f} | {gate['max_metric_drop']:.4f} |\n\n"
        f"Opset {file['opset']}, IR version {file['ir_version']}, {file['num_nodes']} nodes, one "
        "file. `parity.npz` holds raw inputs with torch's outputs, so that this can be repeated "
        "anywhere; `manifest.json` lists every file with its sha256."
    )


def _environment(facts: CardFacts) -> str:
    told = {name: value for name, value in facts.environment.items() if value is not None}
    patches = [PatchOutcome.model_validate(item) for item in told.pop("patches", ())]
    lines = [f"- {name}: {value}" for name, value in told.items()]
    parts = [f"## Environment\n\nJob `{facts.job_id}`.\n\n" + "\n".join(lines)]
    parts += [_patches(patches)] if patches else []
    parts += [_first_steps(facts.first_steps)] if facts.first_steps else []
    return "\n\n".join(parts)


def _patches(outcomes: list[PatchOutcome]) -> str:
    """What was changed and what was not, those that changed something first."""
    order = {"applied": 0, "user": 1, "refused": 2, "skipped": 3}
    rows = [
        f"| {outcome.name} | {outcome.outcome} | {_escape(outcome.why)}{_changes(outcome)} |"
        for outcome in sorted(outcomes, key=lambda outcome: order[outcome.outcome])
    ]
    return (
        "### Patches\n\nWhat was changed for this hardware, and what was left and why.\n\n"
        "| patch | outcome | why |\n|---|---|---|\n" + "\n".join(rows)
    )


def _first_steps(found: FirstSteps) -> str:
    """The evidence that the GPU did the work, and what made it wait."""
    text = f"### First steps on the GPU\n\nEvidence: {describe_work(found.work)}."
    if not found.audited_steps:
        return text
    if not found.findings:
        return (
            f"{text} No operator of {found.audited_steps} steps worked on a large tensor on the "
            "CPU or made the host wait."
        )
    lines = "\n".join(f"- {_escape(describe_finding(finding))}" for finding in found.findings)
    return (
        f"{text}\n\nOperators of {found.audited_steps} steps that worked on the CPU, or made the "
        f"host wait for the GPU:\n\n{lines}"
    )


def _changes(outcome: PatchOutcome) -> str:
    changes = {**outcome.environment, **outcome.settings}
    # Folders of the worker's say nothing to a reader of the card.
    texts = [
        name if value.startswith("/") else f"{name}={value}" for name, value in changes.items()
    ]
    return f": {', '.join(f'`{text}`' for text in texts)}" if texts else ""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def _escape(text: str) -> str:
    """A class name is a user's folder name; it must not become markup."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!" else c for c in text)
