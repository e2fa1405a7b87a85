"""Subgraphs: branches and loops, run as Python does."""

from typing import Any

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import Sizes

Tensor = torch.Tensor


@operator("If")
def _if(call: Call, condition: Tensor) -> tuple[Any, ...]:
    branch = "then_branch" if bool(condition.item()) else "else_branch"
    return tuple(call.run_body(branch, []))


@operator("Loop")
def _loop(call: Call, most: Tensor | None, condition: Tensor | None, *carried: Any) -> Any:
    limit = None if most is None else int(most.item())
    goes_on = True if condition is None else bool(condition.item())
    state, rows, device = list(carried), [], call.state.device
    number = 0
    while goes_on and (limit is None or number < limit):
        inputs = [torch.tensor(number, device=device), torch.tensor(True, device=device), *state]
        again, *values = call.run_body("body", inputs)
        state, scanned = values[: len(carried)], values[len(carried) :]
        rows.append(_tensors(scanned, device))
        goes_on, number = bool(again.item()), number + 1
    return (*_tensors(state, device), *(torch.stack(column) for column in zip(*rows, strict=True)))


@operator("Scan", since=9)
def _scan(call: Call, *inputs: Tensor) -> Any:
    num_scanned = call.get("num_scan_inputs")
    num_state = len(inputs) - num_scanned
    state, scanned = list(inputs[:num_state]), inputs[num_state:]
    axes = call.get("scan_input_axes") or [0] * num_scanned
    backward = call.get("scan_input_directions") or [0] * num_scanned
    length = scanned[0].shape[axes[0]]
    rows = []
    for step in range(length):
        now = [
            one.select(axis, length - 1 - step if is_back else step)
            for one, axis, is_back in zip(scanned, axes, backward, strict=True)
        ]
        values = _tensors(call.run_body("body", [*state, *now]), call.state.device)
        state = values[:num_state]
        rows.append(values[num_state:])
    columns = list(zip(*rows, strict=True))
    out_axes = call.get("scan_output_axes") or [0] * len(columns)
    directions = call.get("scan_output_directions") or [0] * len(columns)
    stacked = [
        torch.stack(column[::-1] if is_back else column, axis)
        for column, axis, is_back in zip(columns, out_axes, directions, strict=True)
    ]
    return (*state, *stacked)


@operator("SequenceMap", since=17)
def _sequence_map(call: Call, *inputs: Any) -> Any:
    number = len(inputs[0])
    rows = [
        call.run_body("body", [one[step] if isinstance(one, list) else one for one in inputs])
        for step in range(number)
    ]
    return tuple(
        _tensors([row[place] for row in rows], call.state.device)
        for place in range(call.num_outputs)
    )


def _tensors(values: list[Any], device: torch.device) -> list[Any]:
    return [v.to_tensor(device) if isinstance(v, Sizes) else v for v in values]
