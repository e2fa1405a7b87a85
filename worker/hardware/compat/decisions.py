"""What Redkiln decides for each kind of GPU, from the tables and patches that jobs use.

Each GPU is taken as one card with the images' release of ROCm and nothing measured: no self-test,
no probe, no benchmark. On a real machine these can change the decisions.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redkiln.views.hardware import GpuFacts
from worker.hardware.compat.graph import Release, load_graph
from worker.hardware.facts.targets import UNDATED_READ_ON, Target, find_wheel_target
from worker.hardware.patches import decide_all
from worker.hardware.patches.facts import PatchFacts

_DATE = re.compile(r"20\d\d-\d\d-\d\d")
REFUSED = "refused"
CHECKED = {"tested": "tested by AMD", "built": "only built", "none": "not built"}


@dataclass(frozen=True)
class TargetDecisions:
    """One kind of GPU.

    Attributes:
        precision: Type that `precision: auto` trains in; `refused` if nothing is trained on it.
        patches: Patches that apply, with their variables.
        refused_patches: Patches that are refused, because they would do harm.
        override: Value of HSA_OVERRIDE_GFX_VERSION that a probe may allow; empty: never.
        wheels: Builder of its wheels, with the newest release.
        images: Images of the worker that have its kernels.
        checked: Whether AMD tests its builds for it, or only builds them.
        date: Newest day on which a source of the row was read.
    """

    gfx: str
    cards: str
    precision: str
    patches: tuple[str, ...]
    refused_patches: tuple[str, ...]
    override: str
    wheels: str
    images: str
    checked: str
    sources: tuple[str, ...]
    date: str


def decide_target(target: Target) -> TargetDecisions:
    """Return what is decided for one kind of GPU."""
    releases = load_graph().releases_for(target)
    outcomes = [] if target.blocking else decide_all(_nominal_facts(target, releases))
    return TargetDecisions(
        gfx=target.gfx,
        cards=target.cards,
        precision=REFUSED if target.blocking else target.precision,
        patches=tuple(each.name for each in outcomes if each.outcome == "applied"),
        refused_patches=tuple(each.name for each in outcomes if each.outcome == "refused"),
        override=target.override.value or "",
        wheels=_describe_wheels(releases),
        images=_describe_images(target),
        checked=CHECKED[target.checked],
        sources=target.sources,
        date=max(_DATE.findall(" ".join(target.sources)), default=UNDATED_READ_ON),
    )


def find_common_patches(decisions: Sequence[TargetDecisions]) -> tuple[str, ...]:
    """Return the patches that apply to every kind of GPU that is trained on."""
    trained = [each.patches for each in decisions if each.precision != REFUSED]
    shared = set.intersection(*map(set, trained)) if trained else set()
    return tuple(name for name in trained[0] if name in shared) if trained else ()


def _nominal_facts(target: Target, releases: Sequence[Release]) -> PatchFacts:
    release = _image_release(releases)
    torch = f"{release.torch[-1]}.0+rocm{release.rocm}.0" if release else None
    return PatchFacts(
        backend="rocm",
        gpus=(GpuFacts(node=1, gfx=target.gfx, is_apu=target.is_apu, wave_size=target.wave_size),),
        torch=torch,
        rocm=f"{release.rocm}.0" if release else None,
        arch_list=(target.gfx,) if release else (),
    )


def _image_release(releases: Sequence[Release]) -> Release | None:
    """Return the release of Redkiln's images, which is ROCm 10.0, or the newest one."""
    return next((r for r in releases if r.rocm == "10.0"), releases[0] if releases else None)


def _describe_wheels(releases: Sequence[Release]) -> str:
    newest = {"AMD" if r.wheels == "therock" else "pytorch.org": r.rocm for r in reversed(releases)}
    return _join(f"{who} (ROCm {rocm})" for who, rocm in reversed(newest.items())) or "none"


def _describe_images(target: Target) -> str:
    if target.blocking is not None:
        return "none"
    wheel = find_wheel_target(target.gfx)
    slim = "slim" if wheel is target else f"slim for {wheel.gfx}" if wheel else ""
    return _join(filter(None, [slim, "full" if target.in_full_image else ""])) or "none"


def _join(words: Iterable[str]) -> str:
    return ", ".join(words)
