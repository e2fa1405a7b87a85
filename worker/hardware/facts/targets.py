"""The table of gfx targets: what each kind of GPU can do, and its known defects.

The facts are in `targets.toml`, each row with its sources; this module defines only their form.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from worker.hardware.facts.versions import parse_version

TABLE_PATH = Path(__file__).parent / "targets.toml"
UNDATED_READ_ON = "2026-11-21"
"""Day on which those sources of the table were read that name no day themselves."""

Precision = Literal["fp32", "fp16", "bf16"]
Severity = Literal["blocks", "slows", "note"]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Defect(_Row):
    """A known defect of a target.

    Attributes:
        code: Machine-readable name.
        severity: `blocks` means that nothing is trained on the target.
        text: Description of the defect, for people.
        fix: The thing to do; empty if nothing helps.
        source: Report of it.
        fixed_in_rocm: First ROCm release without it; None: no release is known to be right.
        forbids: Type that `precision: auto` does not choose because of it.
    """

    code: str
    severity: Severity
    text: str
    fix: str = ""
    source: str
    fixed_in_rocm: str | None = None
    forbids: Precision | None = None

    def affects(self, rocm: str | None) -> bool:
        """Return whether a release of ROCm has the defect; an unknown release may have it."""
        if self.fixed_in_rocm is None or rocm is None:
            return True
        return parse_version(rocm) < parse_version(self.fixed_in_rocm)


class Override(_Row):
    """When `HSA_OVERRIDE_GFX_VERSION` may help; it is never set without a probe in a child.

    Attributes:
        value: Value to set; None: never.
        needs: Architecture that torch must have kernels for, while it lacks the GPU's own.
        why: The reason, for the report.
    """

    value: str | None = None
    needs: str | None = None
    why: str


class Target(_Row):
    """One gfx target.

    Attributes:
        family: Family of the architecture (`rdna2`).
        cards: Products, for people.
        wave_size: Lanes of a wavefront.
        matrix_unit: `wmma` on RDNA and CDNA5, `mfma` on CDNA1 to CDNA4.
        precision: Type in which `auto` trains; fp16 needs a gradient scaler.
        has_fp16: Whether half precision is worth using.
        has_bf16: Whether bf16 works; torch claims so on every ROCm build.
        is_apu: Whether every product of this target shares the host's memory; None if some do.
        in_classic_wheels: Whether the latest wheels of pytorch.org are built for it.
        classic_torch_since: First torch whose classic wheels are built for it; None if unknown.
        classic_rocm_since: ROCm of those wheels; None if unknown.
        classic_rocm_until: Last ROCm whose classic wheels were built for a dropped target.
        in_therock: Whether AMD's wheels of ROCm 7.14 and later are built for it, tested or not.
        in_full_image: Whether the worker's full image, which is AMD's, has its kernels.
        checked: Whether TheRock tests its builds on such a GPU, or only builds them.
        has_hipblaslt: Whether torch can prefer hipBLASLt.
        aotriton: Whether torch 2.13 has fused attention kernels, possibly behind a switch; earlier
            releases had more of them behind it.
        onnx_provider: Execution provider of ONNX Runtime that runs on it.
        lanes_per_cu: Lanes of vector arithmetic in a compute unit.
        flop_per_lane_per_clock: Rate by type, with the faster of vector and matrix units; a missing
            type has no known rate.
        peak_note: Assumptions of the peak.
        min_kernel: First Linux release with which it works reliably; None: no limit is known.
        max_product_rows: Most rows of a float32 product that its BLAS libraries compute correctly;
            None: no limit is known.
        expandable_since: First ROCm with which torch's expandable segments may be tried on it;
            None: no release is known to be right.
        sources: Sources of the row.
    """

    gfx: str
    family: str
    cards: str
    wave_size: Literal[32, 64]
    matrix_unit: Literal["none", "wmma", "mfma"] = "none"
    precision: Precision
    has_fp16: bool = True
    has_bf16: bool
    is_apu: bool | None = None
    in_classic_wheels: bool
    classic_torch_since: str | None = None
    classic_rocm_since: str | None = None
    classic_rocm_until: str | None = None
    in_therock: bool
    in_full_image: bool
    checked: Literal["tested", "built", "none"]
    override: Override
    defects: tuple[Defect, ...] = ()
    has_hipblaslt: bool = False
    aotriton: Literal["none", "experimental", "yes"] = "none"
    onnx_provider: Literal["migraphx", "none"] = "none"
    lanes_per_cu: int = 64
    flop_per_lane_per_clock: Mapping[Precision, int] = {}
    peak_note: str = ""
    min_kernel: str | None = None
    max_product_rows: int | None = None
    expandable_since: str | None = None
    sources: tuple[str, ...]

    @property
    def unchosen_precisions(self) -> frozenset[Precision]:
        """Types that `precision: auto` does not choose: all others if the row names fp32."""
        if self.precision == "fp32":
            return frozenset(("fp16", "bf16"))
        return frozenset(defect.forbids for defect in self.defects if defect.forbids)

    @property
    def blocking(self) -> Defect | None:
        """The defect because of which nothing is trained on it, if there is one."""
        return next((defect for defect in self.defects if defect.severity == "blocks"), None)


def find_target(gfx: str) -> Target | None:
    """Return the row of an LLVM target; feature suffixes (`gfx90a:xnack-`) are ignored."""
    return load_targets().get(gfx.partition(":")[0])


def find_wheel_target(gfx: str) -> Target | None:
    """Return the row whose wheels of AMD a GPU can use, or None.

    These are its own, or else those that it runs under an override, once its probe has passed.
    """
    target = find_target(gfx)
    if target is None or target.in_therock:
        return target
    other = target.override.needs and find_target(target.override.needs)
    return other if other and other.in_therock else None


@cache
def load_targets() -> Mapping[str, Target]:
    """Load all rows by their gfx name.

    Raises:
        pydantic.ValidationError: The table does not have this form.
    """
    rows = tomllib.loads(TABLE_PATH.read_text())["target"]
    return {row["gfx"]: Target.model_validate(row) for row in rows}
