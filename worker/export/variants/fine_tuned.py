"""The int8 form of a network that was fine-tuned with int8 rounding, and its rehearsal."""

import copy
import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from redkiln.failure import FailureCode
from worker.export.exportable import Exportable
from worker.export.labelling import Probabilities
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict
from worker.export.target import Arrays
from worker.process.failed import TrainingFailed
from worker.qat.network import convert, find_ranges, load_state, prepare


def quantise(
    exportable: Exportable,
    fine_tuned: Mapping[str, torch.Tensor] | None = None,
    *,
    batches: Sequence[Arrays] = (),
) -> Exportable:
    """Return the same model with its network in int8.

    Args:
        exportable: The float32 model; its module has the network as `network`, behind it perhaps
            the probabilities of several labels.
        fine_tuned: State of the fine-tuned network; None for the untrained one of a rehearsal.
        batches: Training samples on which the ranges of activations are found again; without them
            they are those of the fine-tuning.

    Raises:
        Exception: torchao cannot do the network.
    """
    module = copy.deepcopy(exportable.module)
    inner = module.module if isinstance(module, Probabilities) else module
    (images,) = exportable.examples.values()
    prepared = prepare(inner.network, images)  # type: ignore[arg-type]
    if fine_tuned is None:
        prepared(images)  # fills the ranges
    else:
        load_state(prepared, fine_tuned)
    if batches:
        inner.network = prepared
        run = dataclasses.replace(exportable, module=module).predict
        find_ranges(prepared, lambda: [run(batch) for batch in batches])
    inner.network = convert(prepared)
    return dataclasses.replace(exportable, module=module)


def rehearse_fine_tuned(exportable: Exportable, *, opset: int, threads: int) -> None:
    """Quantise, export and run the untrained model, so that no training is wasted.

    Raises:
        TrainingFailed: One of these failed.
    """
    try:
        quantised = quantise(exportable)
        with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
            path = Path(folder) / "model.onnx"
            write_onnx(quantised, path, opset=opset, metadata={})
            inputs = {name: tensor.numpy() for name, tensor in exportable.others.items()}
            onnx_predict(open_session(path, threads=threads))(inputs)
    except Exception as error:
        first = str(error).strip().partition("\n")[0][:300]
        message = (
            f"int8-qat cannot be made for this model: {type(error).__name__}: {first}. Remove it "
            "from export.variants; int8-static needs no fine-tuning"
        )
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message) from error
