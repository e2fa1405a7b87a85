"""Builds the network that learns with int8 rounding, and its int8 form.

Source: torchao's PT2E, https://docs.pytorch.org/ao/stable/pt2e_quantization/pt2e_qat.html.
"""

import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from worker.qat.patterns import only_present_layers

OBSERVER = "activation_post_process_"
"""In the names of tensors that belong to the ranges of values, of weights, too."""


def prepare(network: nn.Module, images: torch.Tensor) -> nn.Module:
    """Return a copy of a network in which weights and activations are rounded like int8.

    Its parameters are trained as usual. `train` and `eval` switch its dropout and batch norm.

    Args:
        network: A convolutional network; it does not change.
        images: (2, C, H, W) an example, on the network's device; other batch sizes may follow.

    Raises:
        Exception: torch or torchao cannot trace the network, or torchao is missing.
    """
    with _quiet(), only_present_layers():
        from torchao.quantization import pt2e
        from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

        from worker.qat.quantizer import OnnxQuantizer

        plain = copy.deepcopy(network).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        plain.requires_grad_(True).train()
        batch = torch.export.Dim("batch", min=1)
        traced = torch.export.export(
            plain, (images.contiguous(),), dynamic_shapes=({0: batch},)
        ).module()
        prepared: nn.Module = prepare_qat_pt2e(traced, OnnxQuantizer())
        pt2e.allow_exported_model_train_eval(prepared)
        return prepared


def load_state(prepared: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Restore the state of a prepared network exactly.

    If an earlier release rounded other values, only the network itself is restored: the next
    batches fill the ranges again.

    Observers take tensors without a version for those of an old release, and then replace `eps`,
    the smallest scale.

    Raises:
        RuntimeError: The tensors are of another network.
    """
    if prepared.state_dict().keys() != tensors.keys():
        learnt = {name: tensor for name, tensor in tensors.items() if OBSERVER not in name}
        different = prepared.load_state_dict(learnt, strict=False)
        names = [*different.missing_keys, *different.unexpected_keys]
        if others := [name for name in names if OBSERVER not in name]:
            raise RuntimeError(f"the fine-tuned state is of another network: {others}")
        return
    prepared.load_state_dict(dict(tensors))
    for name, buffer in prepared.named_buffers():
        if name.endswith(".eps"):
            buffer.copy_(tensors[name])


def find_ranges(prepared: nn.Module, run: Callable[[], object]) -> None:
    """Find the ranges of weights and activations again, in evaluation mode.

    While the network was fine-tuned, ranges moved by a hundredth of the way in each step, and batch
    normalisation, which becomes a part of the weights, used the statistics of each batch. So the
    ranges of a network that has seen few steps are those of another network.

    Args:
        prepared: The fine-tuned network.
        run: Runs the network on real samples.
    """
    from torchao.quantization import pt2e

    observers = pt2e.MovingAverageMinMaxObserver, pt2e.MovingAveragePerChannelMinMaxObserver
    prepared.eval()
    for module in prepared.modules():
        if isinstance(module, observers):
            module.reset_min_max_vals()
    prepared.apply(pt2e.disable_fake_quant).apply(pt2e.enable_observer)
    run()
    prepared.apply(pt2e.enable_fake_quant).apply(pt2e.disable_observer)


def convert(prepared: nn.Module) -> nn.Module:
    """Return the int8 form of a trained network in evaluation mode; the argument is used up."""
    with _quiet(), only_present_layers():
        from torchao.quantization import pt2e
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        prepared.eval()
        converted: nn.Module = convert_pt2e(prepared)
        pt2e.allow_exported_model_train_eval(converted)
        converted.eval()  # returns nothing here
        return converted


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out torchao's notes about kernels for other devices, which this does not use."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
