"""RNN, GRU and LSTM, as a loop over time.

Shapes: T steps, B batch, I inputs, H hidden, D directions.
"""

from collections.abc import Callable

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.registry import operator

Tensor = torch.Tensor
Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


@operator("RNN", since=7)
def _rnn(
    call: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
) -> tuple[Tensor, ...]:
    def build(direction: int) -> Step:
        (activate,) = _activations(call, direction, ["Tanh"])
        wb, rb = _biases(bias, direction, r.shape[-1], r)

        def step(now: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (activate(now @ w[direction].T + state[0] @ r[direction].T + wb + rb),)

        return step

    return _scan(call, x, r, build, lengths, (h0,))


@operator("GRU", since=7)
def _gru(
    call: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
) -> tuple[Tensor, ...]:
    hidden = r.shape[-1]
    is_after = bool(call.get("linear_before_reset", 0))

    def build(direction: int) -> Step:
        gate, squash = _activations(call, direction, ["Sigmoid", "Tanh"])
        wb, rb = _biases(bias, direction, 3 * hidden, r)
        recur, last = r[direction][: 2 * hidden].T, r[direction][2 * hidden :].T

        def step(now: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (h,) = state
            inner = now @ w[direction].T + wb
            gates = gate(inner[..., : 2 * hidden] + h @ recur + rb[..., : 2 * hidden])
            update, reset = gates[..., :hidden], gates[..., hidden:]
            rb_last = rb[..., 2 * hidden :]
            past = reset * (h @ last + rb_last) if is_after else (reset * h) @ last + rb_last
            new = squash(inner[..., 2 * hidden :] + past)
            return ((1 - update) * new + update * h,)

        return step

    return _scan(call, x, r, build, lengths, (h0,))


@operator("LSTM", since=7)
def _lstm(
    call: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
    c0: Tensor | None = None,
    peepholes: Tensor | None = None,
) -> tuple[Tensor, ...]:
    hidden = r.shape[-1]
    if call.get("input_forget", 0):
        raise OnnxRefused("an LSTM with input_forget is not supported")

    def build(direction: int) -> Step:
        gate, squash, release = _activations(call, direction, ["Sigmoid", "Tanh", "Tanh"])
        wb, rb = _biases(bias, direction, 4 * hidden, r)
        peep = x.new_zeros(3 * hidden) if peepholes is None else peepholes[direction]

        def step(now: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            h, c = state
            i, o, f, g = (now @ w[direction].T + h @ r[direction].T + wb + rb).chunk(4, -1)
            pi, po, pf = peep.chunk(3)
            new = gate(f + pf * c) * c + gate(i + pi * c) * squash(g)
            return gate(o + po * new) * release(new), new

        return step

    return _scan(call, x, r, build, lengths, (h0, c0))


def _scan(
    call: Call,
    x: Tensor,
    r: Tensor,
    build: Callable[[int], Step],
    lengths: Tensor | None,
    starts: tuple[Tensor | None, ...],
) -> tuple[Tensor, ...]:
    """Run the steps of all directions; returns outputs (T, D, B, H), and the last states."""
    if call.get("clip") is not None:
        raise OnnxRefused(f"{call.node.op} with clip is not supported")
    is_batch_first = bool(call.get("layout", 0))
    x = x.transpose(0, 1) if is_batch_first else x
    if is_batch_first:
        starts = tuple(None if s is None else s.transpose(0, 1) for s in starts)
    outputs, finals = [], []
    for direction in range(r.shape[0]):
        zero = x.new_zeros(x.shape[1], r.shape[-1])
        state = tuple(zero if s is None else s[direction] for s in starts)
        is_reverse = direction == 1 or call.get("direction", "forward") == "reverse"
        seen, last = _run(x, build(direction), state, lengths, is_reverse=is_reverse)
        outputs.append(seen)
        finals.append(last)
    whole = torch.stack(outputs, 1)
    states = [torch.stack(parts) for parts in zip(*finals, strict=True)]
    if is_batch_first:
        whole, states = whole.permute(2, 0, 1, 3), [s.transpose(0, 1) for s in states]
    return (whole, *states)


def _run(
    x: Tensor,
    step: Step,
    state: tuple[Tensor, ...],
    lengths: Tensor | None,
    *,
    is_reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    seen: list[Tensor] = []
    order = range(x.shape[0])
    for time in reversed(order) if is_reverse else order:
        new = step(x[time], state)
        shown = new[0]
        if lengths is not None:
            alive = (time < lengths).reshape(-1, 1)
            new = tuple(torch.where(alive, n, old) for n, old in zip(new, state, strict=True))
            shown = torch.where(alive, shown, torch.zeros_like(shown))
        state = new
        seen.append(shown)
    return torch.stack(seen[::-1] if is_reverse else seen), state


def _biases(
    bias: Tensor | None, direction: int, number: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    if bias is None:
        zero = like.new_zeros(number)
        return zero, zero
    return bias[direction][: bias.shape[1] // 2], bias[direction][bias.shape[1] // 2 :]


def _activations(
    call: Call, direction: int, default: list[str]
) -> list[Callable[[Tensor], Tensor]]:
    names = call.get("activations") or default * 2
    chosen = names[direction * len(default) : (direction + 1) * len(default)]
    unknown = [name for name in chosen if name.lower() not in ACTIVATIONS]
    if unknown or call.get("activation_alpha") or call.get("activation_beta"):
        raise OnnxRefused(f"the activations {', '.join(chosen)} are not supported")
    return [ACTIVATIONS[name.lower()] for name in chosen]
