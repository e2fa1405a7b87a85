"""Recommendations from the numbers: pure rules, each quoting the numbers that it is based on.

A difference counts only if it exceeds both a few per cent and the spread of the compared numbers.
"""

from collections.abc import Callable, Iterator, Sequence

from redkiln.views.benchmark import (
    BenchmarkResult,
    Comparison,
    Layout,
    Measurement,
    Pair,
    Recommendation,
    number_words,
)
from redkiln.views.hardware import Precision

LEAST_GAIN = 0.03
"""A smaller difference is not worth a setting."""
LOW_SHARE = 0.4
"""Share of the computed peak; libraries reach more than half of it on large products."""
LARGE_MATRIX = 2048
"""Smaller products do not fill a GPU."""
SLOW_COPY = 1.25
UNSTEADY_SPREAD = 0.15
MIN_SAMPLES = 3
"""A test with fewer samples supports no recommendation."""
GRADIENT_BYTES = 46_800_000
"""Size of ResNet-18's gradients in float32."""
HEAVY_ALLREDUCE = 0.25

Rule = Callable[[BenchmarkResult], Iterator[Recommendation]]


def recommend(result: BenchmarkResult) -> list[Recommendation]:
    """Return all recommendations for a result, the most important first."""
    return [advice for rule in RULES for advice in rule(result)]


def best_rates(result: BenchmarkResult) -> dict[str, float]:
    """Return the best rate of each kind of test, for a first comparison of two machines."""
    units = {"TFLOP/s": "tflops", "GB/s": "gb_per_second", "images/s": "images_per_second"}
    best: dict[str, float] = {}
    for measured in result.measurements:
        if measured.rate is not None:
            kind = measured.id.split("/")[1] if measured.precision is None else measured.precision
            kind = measured.id.split("/")[1] if measured.test == "memory" else kind
            name = f"{measured.test}/{kind}_{units[measured.unit]}"
            best[name] = max(best.get(name, 0.0), measured.rate.value)
    return best


def choose_precision(result: BenchmarkResult) -> Iterator[Recommendation]:
    """Recommend the type in which the ResNet-18 step is fastest, in its best layout."""
    base = _best_step(result, "fp32")
    if base is None:
        return
    gains = {}
    for precision in ("bf16", "fp16"):
        step = _best_step(result, precision)
        if step is not None:
            gains[precision] = (_value(step) / _value(base), step)
    if not gains:
        return
    # bf16 needs no loss scaling, so a slightly higher speed of fp16 does not outweigh it.
    best = max(gains, key=lambda name: gains[name][0] * (1.05 if name == "bf16" else 1.0))
    words = ", ".join(
        f"{name} gives {ratio:.2f}x here ({_rates(step, base)})"
        for name, (ratio, step) in gains.items()
    )
    ratio, step = gains[best]
    is_faster = ratio > 1 + max(LEAST_GAIN, _spread(step, base))
    chosen = best if is_faster else "fp32"
    ending = f"train in {best}" if is_faster else "stay with fp32"
    # A CPU is measured with small batches, in which the fixed cost of a step dominates.
    is_small = result.machine.kind == "cpu"
    if is_small:
        ending = f"{chosen} for batches this small; larger batches may differ"
    yield Recommendation(
        code="use_precision",
        text=f"{words}: {ending}",
        setting=None if is_small else f"training.precision: {chosen}",
        numbers={f"{name}_ratio": ratio for name, (ratio, _) in gains.items()},
    )


def choose_layout(result: BenchmarkResult) -> Iterator[Recommendation]:
    """Recommend whether the ResNet-18 step should use channels_last, for each type."""
    for precision in ("fp32", "fp16", "bf16"):
        plain, last = (_step(result, precision, name) for name in ("contiguous", "channels_last"))
        if plain is None or last is None:
            continue
        ratio = _value(last) / _value(plain)
        numbers = {"ratio": ratio, "channels_last": _value(last), "contiguous": _value(plain)}
        rates = _rates(last, plain)
        if abs(ratio - 1) <= max(LEAST_GAIN, _spread(plain, last)):
            text = f"channels_last makes no difference in {precision} ({rates})"
        elif ratio > 1:
            text = f"channels_last gains {ratio - 1:.0%} in {precision} ({rates}): on"
        else:
            text = f"channels_last loses {1 - ratio:.0%} in {precision} ({rates}): off"
        yield Recommendation(code="channels_last", text=text, numbers=numbers)


def pin_memory(result: BenchmarkResult) -> Iterator[Recommendation]:
    """Recommend pinned memory if copies from pageable memory are much slower."""
    pinned, unpinned = (_find(result, f"copies/{name}") for name in ("pinned", "unpinned"))
    if pinned is None or unpinned is None:
        return
    ratio = _value(pinned) / _value(unpinned)
    if ratio >= SLOW_COPY:
        yield Recommendation(
            code="pin_memory",
            text=f"unpinned host-to-device copies are {ratio:.1f}x slower ({_value(unpinned):.1f} "
            f"against {_value(pinned):.1f} GB/s): pin the memory of batches",
            numbers={"pinned": _value(pinned), "unpinned": _value(unpinned)},
        )


def watch_peak(result: BenchmarkResult) -> Iterator[Recommendation]:
    """Report large products that are far below what the card could reach."""
    for precision in ("fp32", "fp16", "bf16"):
        best = _best_product(result, precision)
        if best is None or best.share is None or best.share >= LOW_SHARE:
            continue
        yield Recommendation(
            code="low_share_of_peak",
            text=f"{precision} products reach {best.share:.0%} of the computed peak "
            f"({_value(best):.3g} of {best.peak:.3g} TFLOP/s): check the power limit and the "
            "clocks (`redkiln doctor`), and which BLAS library is used",
            numbers={"share": best.share, "tflops": _value(best)},
        )


def weigh_comparisons(result: BenchmarkResult) -> Iterator[Recommendation]:
    """Report the effect of patches and other switches, for each test and on average."""
    for comparison in result.comparisons:
        if comparison.pairs:
            yield _weigh(comparison)


def weigh_allreduce(result: BenchmarkResult) -> Iterator[Recommendation]:
    """Report the share of a step that exchanging gradients would take."""
    step = _best_step(result, "bf16") or _best_step(result, "fp32")
    exchange = _find(result, f"allreduce/{GRADIENT_BYTES}")
    if step is None or step.seconds is None or exchange is None or exchange.seconds is None:
        return
    share = exchange.seconds / step.seconds
    heavy = share > HEAVY_ALLREDUCE
    ending = "raise the batch size or use accumulation" if heavy else "several GPUs are worthwhile"
    yield Recommendation(
        code="allreduce",
        text=f"exchanging ResNet-18's gradients takes {1e3 * exchange.seconds:.1f} ms, {share:.0%} "
        f"of a step ({1e3 * step.seconds:.1f} ms): {ending}",
        numbers={"share": share, "allreduce_seconds": exchange.seconds},
    )


def watch_spread(result: BenchmarkResult) -> Iterator[Recommendation]:
    """Report results with a large spread, because something else was running."""
    measured = [m for m in result.measurements if m.rate]
    unsteady = [m for m in measured if m.rate and m.rate.spread > UNSTEADY_SPREAD]
    if not unsteady:
        return
    worst = max(unsteady, key=lambda m: m.rate.spread if m.rate else 0.0)
    assert worst.rate is not None
    yield Recommendation(
        code="unsteady",
        text=f"{len(unsteady)} of {len(measured)} tests vary by more than "
        f"{UNSTEADY_SPREAD:.0%} ({worst.title}: {worst.rate.spread:.0%}): measure again while "
        "nothing else runs on the machine",
        numbers={"tests": float(len(unsteady)), "worst_spread": worst.rate.spread},
    )


def want_samples(result: BenchmarkResult) -> Iterator[Recommendation]:
    """Report tests that were too slow for the available time."""
    few = [m for m in result.measurements if m.rate and m.rate.num_samples < MIN_SAMPLES]
    if few:
        more = f" and {len(few) - 1} more" if len(few) > 1 else ""
        yield Recommendation(
            code="few_samples",
            text=f"nothing is concluded from {few[0].title}{more}, which was too slow to be "
            f"sampled {MIN_SAMPLES} times; raise measure.seconds",
            numbers={"tests": float(len(few))},
        )


RULES: Sequence[Rule] = (
    choose_precision,
    choose_layout,
    weigh_comparisons,
    pin_memory,
    weigh_allreduce,
    watch_peak,
    want_samples,
    watch_spread,
)


def _weigh(comparison: Comparison) -> Recommendation:
    title = comparison.title
    if comparison.agrees is False:
        return Recommendation(
            code=f"{comparison.name}_wrong",
            text=f"{title}: results differ by {comparison.largest_difference:.1e} of the largest "
            "output, more than rounding explains; keep it off, and run the self-test",
            numbers={"largest_difference": comparison.largest_difference or 0.0},
        )
    ratio = mean_ratio(comparison.pairs)
    noise = max(pair.spread for pair in comparison.pairs)
    numbers = {pair.id: pair.ratio for pair in comparison.pairs}
    detail = ", ".join(f"{pair.title} {pair.ratio:.2f}x" for pair in comparison.pairs)
    if abs(ratio - 1) <= max(LEAST_GAIN, noise):
        text = f"{title} make no difference beyond the noise ({detail})"
    elif ratio > 1:
        text = f"{title} gain {ratio - 1:.0%} ({detail}): on"
    else:
        text = f"{title} lose {1 - ratio:.0%} ({detail}): off"
    return Recommendation(code=comparison.name, text=text, numbers={"mean": ratio, **numbers})


def mean_ratio(pairs: Sequence[Pair]) -> float:
    """Return the geometric mean of the pairs' ratios."""
    product = 1.0
    for pair in pairs:
        product *= pair.ratio
    return float(product ** (1 / len(pairs)))


def _step(result: BenchmarkResult, precision: str, layout: Layout | str) -> Measurement | None:
    return _find(result, f"training/resnet18/{precision}/{layout}")


def _find(result: BenchmarkResult, measurement_id: str) -> Measurement | None:
    found = result.find(measurement_id)
    if found is None or found.rate is None or found.rate.num_samples < MIN_SAMPLES:
        return None
    return found


def _best_step(result: BenchmarkResult, precision: Precision | str) -> Measurement | None:
    steps = [_step(result, precision, layout) for layout in ("contiguous", "channels_last")]
    return max((step for step in steps if step), key=_value, default=None)


def _best_product(result: BenchmarkResult, precision: str) -> Measurement | None:
    products = [
        measured
        for measured in result.measurements
        if measured.test == "matmul"
        and measured.precision == precision
        and measured.rate is not None
        and (measured.size or 0) >= LARGE_MATRIX
    ]
    return max(products, key=_value, default=None)


def _value(measured: Measurement) -> float:
    assert measured.rate is not None
    return measured.rate.value


def _rates(one: Measurement, other: Measurement) -> str:
    return f"{number_words(_value(one))} against {number_words(_value(other))} {one.unit}"


def _spread(*measured: Measurement) -> float:
    return max(item.rate.spread for item in measured if item.rate is not None)
