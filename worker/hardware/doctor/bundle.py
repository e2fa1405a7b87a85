"""A file for bug reports: the report, the driver's files, settings and logs, without secrets."""

import io
import json
import tarfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from redkiln.redaction import SECRET_NAME, find_secrets, redact
from redkiln.views.doctor import DoctorReport
from worker.hardware.doctor.evidence import Evidence

NAMES = frozenset({"PATH", "LANG", "VIRTUAL_ENV", "container"})
PREFIXES = (
    "HSA_", "HIP_", "ROCR_", "ROCM_", "ROCBLAS_", "HIPBLASLT_", "MIOPEN_", "RCCL_", "AMD_", "GPU_",
    "CUDA_", "NVIDIA_", "NCCL_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_", "OMP_", "MKL_",
    "LD_", "DISABLE_ADDMM_", "REDKILN_",
)  # fmt: skip
"""Variables that may explain a GPU's behaviour; no others are included."""

PACKAGES = ("torch", "triton", "amd", "rocm", "pytorch", "onnx", "numpy", "safetensors", "redkiln")

TOPOLOGY_FILES = (
    "generation_id", "system_properties", "nodes/*/gpu_id", "nodes/*/name", "nodes/*/properties",
    "nodes/*/mem_banks/*/properties", "nodes/*/caches/*/properties",
    "nodes/*/io_links/*/properties", "nodes/*/p2p_links/*/properties",
)  # fmt: skip
CARD_FILES = (
    "uevent", "vendor", "device", "revision", "gpu_busy_percent", "mem_busy_percent",
    "mem_info_*", "pp_dpm_sclk", "pp_dpm_mclk", "current_link_*", "fw_version/*",
    "hwmon/hwmon*/name", "hwmon/hwmon*/*_input", "hwmon/hwmon*/*_label", "hwmon/hwmon*/*_average",
    "hwmon/hwmon*/power1_cap",
)  # fmt: skip
MAX_FILE_BYTES = 65536


def write_bundle(
    path: Path,
    report: DoctorReport,
    evidence: Evidence,
    *,
    topology_dir: Path,
    drm_dir: Path,
    secrets: Collection[str] = (),
) -> None:
    """Write the bundle; secrets are removed from every text in it.

    Args:
        path: Path of the `.tar.gz`.
        report: Report on this machine.
        evidence: Evidence behind the report.
        topology_dir: The driver's topology folder.
        drm_dir: Folder of the cards.
        secrets: Values to remove, in addition to those found in the environment.

    Raises:
        OSError: The file cannot be written.
    """
    known = {*secrets, *find_secrets(evidence.environment)}
    with tarfile.open(path, "w:gz") as archive:
        for name, text in _contents(report, evidence, topology_dir, drm_dir):
            _add(archive, f"redkiln-doctor/{name}", redact(text, known=known))


def select_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to include; a secret's value is replaced by `<set>`."""
    return {
        name: "<set>" if SECRET_NAME.search(name) else value
        for name, value in sorted(environment.items())
        if name in NAMES or name.startswith(PREFIXES)
    }


def _contents(
    report: DoctorReport, evidence: Evidence, topology_dir: Path, drm_dir: Path
) -> Iterator[tuple[str, str]]:
    yield "report.json", report.model_dump_json(indent=2)
    yield "environment.json", _json(select_environment(evidence.environment))
    yield "packages.json", _json(_select_packages(evidence.packages))
    yield "gpus.json", _json([gpu.model_dump(mode="json") for gpu in evidence.gpus])
    yield "deaths.json", _json([death.model_dump(mode="json") for death in evidence.deaths])
    yield "self_tests.json", _json([test.model_dump(mode="json") for test in evidence.self_tests])
    yield "kernel.log", "\n".join(evidence.kernel_log or ("(not readable)",)) + "\n"
    for name, text in evidence.logs.items():
        yield f"logs/{name.replace('/', '_')}", text
    yield from _read_all(topology_dir, TOPOLOGY_FILES, into="topology")
    for card in sorted(drm_dir.glob("card[0-9]*")):
        yield from _read_all(card / "device", CARD_FILES, into=f"drm/{card.name}/device")


def _select_packages(packages: Mapping[str, str]) -> dict[str, str]:
    return {name: packages[name] for name in sorted(packages) if name.startswith(PACKAGES)}


def _read_all(folder: Path, patterns: Collection[str], *, into: str) -> Iterator[tuple[str, str]]:
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        try:
            with path.open("rb") as file:
                text = file.read(MAX_FILE_BYTES).decode(errors="replace")
        except OSError as error:
            text = f"({error.strerror})"
        yield f"{into}/{path.relative_to(folder)}", text


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mtime = int(time.time())
    archive.addfile(entry, io.BytesIO(content))
