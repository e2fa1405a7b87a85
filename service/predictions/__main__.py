"""The predicting process: one argument, the path of a `PredictOrder` as JSON.

It runs in the folder of the order, and writes `predictions.json`, an `Answer`, there.
"""

import io
import math
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from redkiln.errors import ModelError
from service.datasets.inspect.limits import GIB, Limits, confine
from service.predictions.order import MOST_SAMPLES, MOST_SCORES, RESULT, Answer, PredictOrder

if TYPE_CHECKING:
    from redkiln.predict.model import Prediction

_LIMITS = replace(
    Limits(), memory_bytes=4 * GIB, table_memory_bytes=4 * GIB, cpu_seconds=60, output_bytes=GIB
)
_ENDINGS = {"texts": ".txt", "rows": ".csv"}


def main(order_path: Path) -> None:
    """Predict the order's inputs."""
    order = PredictOrder.model_validate_json(order_path.read_bytes())
    confine(_LIMITS, parent_pid=order.parent_pid)
    try:
        answer = predict(order)
    except ModelError as error:
        answer = Answer(problem=str(error))
    (order_path.parent / RESULT).write_text(answer.model_dump_json())


def predict(order: PredictOrder) -> Answer:
    """Return the answers for the inputs.

    Raises:
        ModelError: The model, or the inputs as a whole, cannot be used.
    """
    from redkiln.predict.document import build_document
    from redkiln.predict.items import Skipped
    from redkiln.predict.model import Model

    model = Model(order.model, threads=order.threads)
    is_detector = model.description.detection is not None
    if order.threshold is not None and not is_detector:
        raise ModelError("`threshold` is for models that find boxes; this one does not")
    model.threshold = order.threshold
    given = _name(order.input, noun=model.preparation.noun)
    items = list(islice(model.find_items([given], stdin=io.BytesIO()), MOST_SAMPLES + 1))
    if not items:
        raise ModelError(_describe_empty(given, noun=model.preparation.noun))
    if len(items) > MOST_SAMPLES:
        raise ModelError(
            f"the body has more than {MOST_SAMPLES:,} {model.preparation.noun}; send fewer at "
            "once, or use `redkiln predict`"
        )
    has_places = is_detector or model.description.segmentation is not None
    is_single = order.top is None and model.description.thresholds is None and not has_places
    top = 1 if is_single else min(order.top or MOST_SCORES, MOST_SCORES)
    answers = list(model.predict_items(items, top=top))
    found = [one for one in answers if not isinstance(one, Skipped)]
    skipped = [one for one in answers if isinstance(one, Skipped)]
    for one in found:
        _require_numbers(one)
    document = build_document(found, skipped, model, name=order.model)
    return Answer(document={**document, "notes": model.preparation.notes})


def _require_numbers(answer: "Prediction") -> None:
    numbers = [answer.value or 0.0, *(score for _, score in answer.scores)]
    numbers += [number for one in answer.boxes or () for number in (one.score, *one.box)]
    if not all(map(math.isfinite, numbers)):
        raise ModelError(
            f"the model's answer for {answer.name} is not a number: its training diverged, or the "
            "input is too large"
        )


def _describe_empty(given: str, *, noun: str) -> str:
    if Path(given).suffix in (".csv", ".tsv"):
        return (
            "the table has a header but no rows. Send at least one row; with curl use "
            "--data-binary, because -d removes line breaks"
        )
    return f"the body has no {noun}; send at least one line"


def _name(given: str, *, noun: str) -> str:
    """Return the name of the inputs' file with the ending that the model expects."""
    path = Path(given)
    if path.suffix or noun not in _ENDINGS:
        return given
    return str(path.rename(path.with_suffix(_ENDINGS[noun])))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
