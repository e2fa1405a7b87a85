"""The table of gfx targets: what each kind of GPU can do, what is known to be wrong with it.

The facts are in `targets.toml`, each row with its sources; here is only their form.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

TABLE_PATH = Path(__file__).parent / "targets.toml"

Precision = Literal["fp32", "fp16", "bf16"]
Severity = Literal["blocks", "slows", "note"]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Defect(_Row):
    """Something known to be wrong with a target.

    Attributes:
        code: machine-readable.
        severity: `blocks` means that nothing is trained on it.
        text: what goes wrong, for a person.
        fix: what to do; empty where nothing helps.
        source: where it was reported.
    """

    code: str
    severity: Severity
    text: str
    fix: str = ""
    source: str


class Override(_Row):
    """When `HSA_OVERRIDE_GFX_VERSION` may help, and never without a probe in a child.

    Attributes:
        value: to set; None is never.
        needs: the arch that torch must have been built for, while the GPU's own is not.
        why: the reason, for the report.
    """

    value: str | None = None
    needs: str | None = None
    why: str


class Target(_Row):
    """One gfx target.

    Attributes:
        family: of the architecture (`rdna2`).
        cards: products, for a person.
        wave_size: lanes of a wavefront.
        matrix_unit: `wmma` on RDNA, `mfma` on CDNA.
        precision: what `auto` trains in; fp16 wants a gradient scaler.
        has_fp16: whether half precision is worth using.
        has_bf16: whether bf16 runs; torch says yes on every ROCm build.
        is_apu: whether every product of this target shares the host's memory; None if some do.
        in_classic_wheels: whether the newest wheels of pytorch.org are built for it.
        classic_torch_since: the first torch whose classic wheels are; None when not known.
        classic_rocm_since: their ROCm; None when not known.
        classic_rocm_until: the last ROCm whose classic wheels were built for a dropped target.
        in_therock: whether AMD's wheels of ROCm 7.14 and later are; not the same as tested.
        has_hipblaslt: whether torch can prefer hipBLASLt.
        aotriton: whether torch 2.13 has kernels of fused attention, or has them behind a switch;
            earlier ones had more behind it.
        onnx_provider: execution provider of ONNX Runtime that runs on it.
        lanes_per_cu: of vector arithmetic.
        flop_per_lane_per_clock: by type, at the best of vector and matrix units; a type that is
            missing has no known rate.
        peak_note: what the peak presumes.
        sources: where the row comes from.
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
    override: Override
    defects: tuple[Defect, ...] = ()
    has_hipblaslt: bool = False
    aotriton: Literal["none", "experimental", "yes"] = "none"
    onnx_provider: Literal["migraphx", "none"] = "none"
    lanes_per_cu: int = 64
    flop_per_lane_per_clock: Mapping[Precision, int] = {}
    peak_note: str = ""
    sources: tuple[str, ...]

    @property
    def blocking(self) -> Defect | None:
        """The defect for which nothing is trained on it, if there is one."""
        return next((defect for defect in self.defects if defect.severity == "blocks"), None)


def find_target(gfx: str) -> Target | None:
    """The row of an LLVM target; feature suffixes (`gfx90a:xnack-`) are left aside."""
    return load_targets().get(gfx.partition(":")[0])


@cache
def load_targets() -> Mapping[str, Target]:
    """All rows by their gfx name.

    Raises:
        pydantic.ValidationError: the table is not of this form.
    """
    rows = tomllib.loads(TABLE_PATH.read_text())["target"]
    return {row["gfx"]: Target.model_validate(row) for row in rows}
