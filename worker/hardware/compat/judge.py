"""Compares a machine with the graph, and finds the smallest change that makes it fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from worker.hardware.compat.graph import (
    Edge,
    Graph,
    Part,
    Release,
    compare,
    is_of,
    load_graph,
)
from worker.hardware.facts.targets import Target, find_target, find_wheel_target

FitVerdict = Literal["fits", "may work", "too old", "broken", "not built", "missing", "unknown"]

COST: dict[Part, int] = {
    "torch": 1, "ROCm": 1, "Python": 2, "driver": 3, "kernel": 4, "firmware": 4,
}  # fmt: skip
"""What a change costs: a package, another interpreter, or a reboot."""

SHOWN_FIRMWARE = ("MES", "MEC", "SMC")
"""Microcodes that schedule work and set clocks; the driver shows their versions to everybody."""
NO_SOURCE = "none found by a search of documentation and issues (2026-11-24)"

BAD: frozenset[FitVerdict] = frozenset({"too old", "broken", "not built", "missing"})


@dataclass(frozen=True)
class Stack:
    """The parts of one machine; None if it lacks one, or if it is unknown.

    Attributes:
        driver: Version of AMD's own amdgpu module; None for the kernel's.
        has_driver: Whether the module is loaded; None if unknown.
        firmware: Version of each microcode by name.
        rocm: ROCm of the installed torch.
        has_torch: Whether torch can be imported; None if nobody asked.
        is_container: Whether the driver and the kernel are the host's.
    """

    kernel: str | None = None
    driver: str | None = None
    has_driver: bool | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)
    rocm: str | None = None
    torch: str | None = None
    has_torch: bool | None = None
    python: str | None = None
    is_container: bool = False


@dataclass(frozen=True)
class Judged:
    """One part of a machine, compared with the need of the card.

    Attributes:
        least: Oldest version that is enough, for people; empty if nothing is known.
        source: Source of that, with the date on which it was read.
    """

    part: Part
    found: str | None
    least: str
    verdict: FitVerdict
    why: str = ""
    source: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether this part has to change."""
        return self.verdict in BAD


@dataclass(frozen=True)
class Change:
    """One thing to change.

    Attributes:
        command: Command that can be typed as it is; empty if it differs between systems.
    """

    part: Part
    to: str
    command: str = ""


@dataclass(frozen=True)
class Compatibility:
    """A card on a machine.

    Attributes:
        release: Release of ROCm that it fits, or should move to; None if no build has its kernels.
        changes: The smallest set of changes after which everything fits; empty if it does.
        reason: Why no change helps; empty if one does or none is needed.
    """

    gfx: str
    parts: tuple[Judged, ...]
    release: Release | None
    changes: tuple[Change, ...] = ()
    reason: str = ""

    @property
    def is_supported(self) -> bool:
        """Whether nothing has to change."""
        return not self.reason and not self.changes


def judge(gfx: str, stack: Stack, *, graph: Graph | None = None) -> Compatibility:
    """Compare a machine with what a card needs.

    Raises:
        KeyError: The table of targets does not contain the card.
    """
    graph = graph or load_graph()
    target = find_target(gfx)
    if target is None:
        raise KeyError(gfx)
    wheel = find_wheel_target(gfx) or target
    releases = graph.releases_for(target) or graph.releases_for(wheel)
    below = [_judge_edge(edge, stack) for edge in graph.edges_of(gfx)]
    if stack.firmware and not any(part.part == "firmware" for part in below):
        below.append(_show_firmware(stack))
    if target.blocking is not None or not releases:
        reason = target.blocking.text if target.blocking else f"no build has kernels for {gfx}"
        return Compatibility(gfx, tuple(below), None, reason=reason)
    plans = [(release, _judge_release(release, stack, target)) for release in releases]
    release, above = min(plans, key=lambda plan: _cost(plan[1]))
    parts = (*below, *(_doubt(part, target) for part in above))
    bad = (part for part in parts if part.is_bad)
    changes = tuple(_describe_change(part, release, stack, wheel.gfx) for part in bad)
    return Compatibility(gfx, parts, release, _merge(changes))


def _doubt(part: Judged, target: Target) -> Judged:
    """Return that another target's kernels may work, for a card without any."""
    has_own = target.in_therock or target.in_classic_wheels or target.classic_rocm_until
    if has_own or part.part != "torch" or part.verdict != "fits":
        return part
    rule = target.override
    why = f"with the kernels of {rule.needs}, if the probe of HSA_OVERRIDE_GFX_VERSION passes"
    return replace(part, verdict="may work", why=why)


def _judge_edge(edge: Edge, stack: Stack) -> Judged:
    source = f"{edge.source} ({edge.date})"
    if edge.part == "firmware":
        return _judge_firmware(edge, stack, source)
    verdict: FitVerdict = "fits"
    if stack.kernel is None or edge.least is None:
        verdict = "unknown"
    elif compare(stack.kernel, edge.least) < 0:
        has_own = stack.driver is not None
        verdict = "may work" if edge.level == "listed" or has_own else "too old"
    return Judged("kernel", stack.kernel, edge.least or "not known", verdict, edge.why, source)


def _judge_firmware(edge: Edge, stack: Stack, source: str) -> Judged:
    found = stack.firmware.get("MES")
    wanted = f"MES other than {', '.join(edge.values)}"
    if found is None:
        return Judged("firmware", None, wanted, "unknown", edge.why, source)
    is_broken = _last_byte(found) in {_last_byte(value) for value in edge.values}
    verdict: FitVerdict = "broken" if is_broken else "fits"
    return Judged("firmware", f"MES {found}", wanted, verdict, edge.why, source)


def _show_firmware(stack: Stack) -> Judged:
    """Return the firmware of a card for which no source names a release to have or to avoid."""
    shown = [name for name in SHOWN_FIRMWARE if name in stack.firmware] or sorted(stack.firmware)[
        :2
    ]
    found = ", ".join(f"{name} {stack.firmware[name]}" for name in shown)
    why = "no source names a minimum for this card"
    return Judged("firmware", found, "no minimum known", "fits", why, NO_SOURCE)


def _judge_release(release: Release, stack: Stack, target: Target) -> list[Judged]:
    return [
        _judge_driver(release, stack),
        _judge_rocm(release, stack),
        _judge_torch(release, stack, target),
        _judge_python(release, stack),
    ]


def _judge_driver(release: Release, stack: Stack) -> Judged:
    source = f"{release.source} ({release.date})"
    least = f"{release.driver_least} ({release.driver_name})" if release.driver_least else "any"
    if stack.has_driver is False:
        return Judged("driver", None, least, "missing", "the amdgpu module is not loaded", source)
    if stack.has_driver is None:
        return Judged("driver", None, least, "unknown", "", source)
    if stack.driver is None:
        return Judged("driver", "of the kernel", least, "fits", "its kernel decides", source)
    is_old = release.driver_least is not None and compare(stack.driver, release.driver_least) < 0
    why = f"ROCm {release.rocm} needs AMD's driver {release.driver_name}, or the kernel's own"
    return Judged("driver", stack.driver, least, "too old" if is_old else "fits", why, source)


def _judge_rocm(release: Release, stack: Stack) -> Judged:
    source = f"{release.source} ({release.date})"
    if stack.rocm is None:
        verdict: FitVerdict = "unknown" if stack.has_torch is None else "missing"
        return Judged("ROCm", None, release.rocm, verdict, "torch is not a ROCm build", source)
    fits = is_of(stack.rocm, release.rocm)
    return Judged("ROCm", stack.rocm, release.rocm, "fits" if fits else "not built", "", source)


def _judge_torch(release: Release, stack: Stack, target: Target) -> Judged:
    source = f"{release.source} ({release.date})"
    since = target.classic_torch_since if release.wheels == "classic" else None
    listed = [t for t in release.torch if since is None or compare(t, since) >= 0]
    wanted = " or ".join(listed)
    if stack.torch is None:
        verdict: FitVerdict = "unknown" if stack.has_torch is None else "missing"
        return Judged("torch", None, wanted, verdict, "torch cannot be imported", source)
    fits = any(is_of(stack.torch, each) for each in listed)
    return Judged("torch", stack.torch, wanted, "fits" if fits else "not built", "", source)


def _judge_python(release: Release, stack: Stack) -> Judged:
    source = f"{release.source} ({release.date})"
    wanted = ", ".join(release.python)
    if stack.python is None:
        return Judged("Python", None, wanted, "unknown", "", source)
    fits = any(is_of(stack.python, each) for each in release.python)
    return Judged("Python", stack.python, wanted, "fits" if fits else "not built", "", source)


def _cost(parts: Sequence[Judged]) -> int:
    return sum(COST[part.part] for part in parts if part.is_bad)


def _describe_change(part: Judged, release: Release, stack: Stack, gfx: str) -> Change:
    match part.part:
        case "kernel":
            return Change("kernel", f"Linux {part.least} or newer")
        case "firmware":
            return Change("firmware", "a newer linux-firmware")
        case "driver":
            if part.verdict == "missing":
                return Change("driver", "the amdgpu module", "sudo modprobe amdgpu")
            return Change("driver", f"AMD's driver {release.driver_name} or newer")
        case "Python":
            return Change("Python", f"Python {release.python[-1]}")
        case _:
            to = f"torch {release.torch[-1]} with ROCm {release.rocm}"
            return Change("torch", to, install_command(release, gfx, stack.is_container))


def install_command(release: Release, gfx: str, is_container: bool) -> str:
    """Return the command that installs a release's torch for a card, and stays in effect.

    `./up` writes the architecture into .env, which later commands of Compose read.
    """
    if is_container:
        return "./up --slim"
    wanted = f'"torch[device-{gfx}]"' if release.wheels == "therock" else "torch"
    return f"python -m pip install --force-reinstall --index-url {release.index} {wanted}"


def _merge(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Drop repeated changes (ROCm and torch are one package) and sort by cost, cheapest last."""
    unique = dict.fromkeys(changes)
    return tuple(sorted(unique, key=lambda change: -COST[change.part]))


def _last_byte(text: str) -> int | None:
    try:
        return int(text, 16) & 0xFF
    except ValueError:
        return None
