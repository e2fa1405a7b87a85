"""Each row of the table turns red on a machine that has the fault, and green on others."""

import errno
import math
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.worker.hardware.doctor.fault_texts import OVERRIDDEN, RIGHT
from tests.worker.hardware.doctor.faults import RED
from tests.worker.hardware.doctor.made_machine import (
    ADDRESS,
    AT,
    CARD,
    CPU_BUILD,
    GIB,
    HEALTHY,
    INTEGRATED,
    KFD,
    OTHER_CARD,
    RENDER,
    RENDER_2,
    ROCM,
    TWO_CARDS,
    death,
    failed_result,
    self_test,
    tried,
    with_gfx,
    with_telemetry,
)
from worker.hardware.doctor.evidence import (
    Evidence,
    SharedMemory,
)
from worker.hardware.doctor.examine import ROWS, examine
from worker.hardware.facts.targets import find_wheel_target, load_targets
from worker.hardware.health.verdicts import AVOID_HIPBLASLT

REFUSED = (death(27, "RuntimeError: HIPBLAS_STATUS_NOT_SUPPORTED"),)
GREEN = [
    (1, with_gfx("gfx1100") | {"packages": {"amd-torch-device-gfx1100": "2.13"}}),
    (1, with_gfx("gfx1013") | {"torch": replace(ROCM, arch_list=("gfx1010",))}),
    (2, {"torch": CPU_BUILD, "gpus": (), "pci_gpus": (), "kfd": None}),
    (3, {"is_wsl": True, "kfd": None, "dxg": KFD}),
    (4, {"render_nodes": (RENDER, replace(RENDER_2, error=errno.EACCES))}),
    (5, {"gpus": (CARD, OTHER_CARD)}),
    (6, with_gfx("gfx1032") | OVERRIDDEN | {"override_probes": {"gfx1032": RIGHT}}),
    (
        6,
        {
            "gpus": (CARD, CARD.model_copy(update={"gfx": "gfx1032", "node": 2})),
            "environment": {"HSA_OVERRIDE_GFX_VERSION_2": "10.3.0"},
            "override_probes": {"gfx1032": RIGHT},
        },
    ),
    (7, {"packages": {"amdsmi": "7.0.2"}, "torch": CPU_BUILD}),
    (
        8,
        {
            "gpus": (CARD, INTEGRATED),
            "render_nodes": (RENDER, RENDER_2),
            "environment": {"ROCR_VISIBLE_DEVICES": "GPU-00000000005d0f6b"},
        },
    ),
    (8, {"gpus": (INTEGRATED,), "render_nodes": (RENDER_2,)}),
    (11, with_telemetry(busy_ratio=1.0) | {"busy_gpus": frozenset({ADDRESS})}),
    (16, with_telemetry(vram_used_bytes=23 * GIB) | {"busy_gpus": frozenset({ADDRESS})}),
    (9, {"deaths": (death(9, "Memory access fault", at=AT - timedelta(days=8)),)}),
    (18, {"deaths": (death(None, is_complete=True, at=AT - timedelta(days=8)),)}),
    (20, with_gfx("gfx1030")),
    (21, TWO_CARDS | {"command_line": "quiet iommu=pt"}),
    (26, {"self_tests": (self_test(results=[failed_result(library="without MIOpen")]),)}),
    (27, {"deaths": REFUSED, "environment": dict(AVOID_HIPBLASLT)}),
    (29, with_gfx("gfx1031")),
    (21, TWO_CARDS | {"environment": {"NCCL_P2P_DISABLE": "1"}}),
    (21, TWO_CARDS | {"has_iommu": False}),
    (21, TWO_CARDS | {"peer_verdicts": (tried(problem="a hang"), tried())}),
    (21, TWO_CARDS | {"has_iommu": False, "peer_verdicts": (tried(gpus=("other",), problem="x"),)}),
    (
        22,
        {
            "is_wsl": True,
            "dxg": KFD,
            "torch": replace(ROCM, hip="7.13.0"),
            "wsl_libraries": ("/usr/lib/wsl/lib/libdxcore.so", "/opt/rocm/lib/librocdxg.so.1"),
        },
    ),
]

UNKNOWN = [
    (1, {"torch": None}),
    (1, {"torch": replace(ROCM, arch_list=())}),
    (2, {"torch": None}),
    (3, {"kfd": None, "gpus": (), "pci_gpus": (), "has_driver": False}),
    (4, {"kfd": None, "render_nodes": ()}),
    (5, {"gpus": ()}),
    (5, {"kfd": None, "render_nodes": ()}),
    (6, {"torch": None}),
    (6, {"torch": replace(ROCM, num_devices=0), "packages": {"amdsmi": "7.0.2"}}),
    (8, {"render_nodes": ()}),
    (9, {"kernel_log": None}),
    (10, {"kernel_log": None}),
    (11, {"busy_gpus": None}),
    (11, with_gfx("gfx1100", telemetry=None)),
    (12, with_gfx("gfx1100", links=[])),
    (13, {"caches": ()}),
    (14, {"caches": ()}),
    (15, {"logs": {}}),
    (16, with_gfx("gfx1100", telemetry=None)),
    (17, {"shared_memory": None}),
    (19, {"self_tests": ()}),
    (20, {"gpus": ()}),
    (20, with_gfx("gfx9999")),
    (21, TWO_CARDS | {"command_line": None}),
]


def check(row, **changes):
    (found,) = [item for item in ROWS if item.number == row]
    return found.examine(replace(HEALTHY, **changes))


def test_the_table_has_all_rows_and_each_is_shown_red_and_green():
    numbers = [row.number for row in ROWS]
    assert numbers == list(range(1, 30))
    assert {case[0] for case in RED} == set(numbers)
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", range(1, 30))
def test_a_healthy_machine_is_green_in_every_row(row):
    found = check(row)
    assert (found.verdict, found.fix) == ("ok", ""), found
    assert found.evidence


@pytest.mark.parametrize(("row", "changes", "severity", "fix", "evidence"), RED)
def test_a_fault_is_red_and_shows_the_command_to_type(row, changes, severity, fix, evidence):
    found = check(row, **changes)
    assert (found.verdict, found.severity) == ("bad", severity), found
    assert fix in found.fix
    assert evidence in found.evidence
    assert found.cause


@pytest.mark.parametrize(("row", "changes"), GREEN)
def test_harmless_states_are_green(row, changes):
    found = check(row, **changes)
    assert (found.verdict, found.fix) == ("ok", ""), found


@pytest.mark.parametrize(("row", "changes"), UNKNOWN)
def test_unreadable_facts_are_unknown_and_not_guessed(row, changes):
    assert check(row, **changes).verdict == "unknown"


def test_findings_are_ordered_by_severity():
    broken = replace(
        HEALTHY,
        packages={"amdsmi": "7.0.2"},
        shared_memory=SharedMemory(64 * 1024**2, 0),
        kfd=replace(KFD, error=errno.EACCES),
        kernel_log=None,
    )
    report = examine(broken)
    kinds = [(c.verdict, c.severity if c.verdict == "bad" else "") for c in report.checks[1:]]
    order = [("bad", "blocks"), ("bad", "slows"), ("bad", "note"), ("unknown", ""), ("ok", "")]
    assert [order.index(kind) for kind in kinds] == sorted(order.index(kind) for kind in kinds)
    assert set(kinds) == set(order)
    assert report.checks[0].id == "gpus"
    assert report.is_blocked


def test_a_machine_without_an_amd_gpu_is_not_red_all_over():
    bare = Evidence(at=AT, torch=CPU_BUILD, shared_memory=SharedMemory(2 * GIB, 2 * GIB))
    report = examine(bare)
    assert [check.row for check in report.checks] == [0, 2, 17, 23]
    assert {check.verdict for check in report.checks} == {"ok"}
    assert "jobs train on the CPU" in report.checks[0].evidence


def test_a_healthy_machine_needs_nothing():
    report = examine(HEALTHY)
    assert report.verdict == "ok"
    assert {check.verdict for check in report.checks} == {"ok"}
    assert report.versions["rocm"] == "7.2.4"


def test_a_known_defect_is_reported_only_for_its_card():
    other = CARD.model_copy(update={"gfx": "gfx1030", "pci_address": "0000:09:00.0"})
    sound = CARD.model_copy(update={"gfx": "gfx900"})
    told = check(19, self_tests=(), gpus=(sound, other)).evidence
    assert f"gfx900 at {ADDRESS}" in told
    assert "known of gfx1030: bf16" in told
    assert "gfx900: " not in told


def test_inaccessible_cards_are_not_reported_as_silent():
    assert check(16, render_nodes=()).evidence == "no GPU can be opened here"


def test_non_finite_numbers_are_reported_as_such():
    result = failed_result(max_rel_error=None, nan_count=12)
    found = check(19, self_tests=(self_test(status="failed", results=[result]),))
    assert "not finite" in found.evidence
    assert math.isfinite(result.tolerance)


def test_a_container_without_devices_is_one_failure():
    report = examine(replace(HEALTHY, kfd=None, render_nodes=()))
    assert [check.row for check in report.checks if check.verdict == "bad"] == [3]


@pytest.mark.parametrize(("row", "changes", "severity", "fix", "evidence"), RED)
def test_no_command_contains_a_placeholder(row, changes, severity, fix, evidence):
    found = check(row, **changes)
    assert not re.search(r"NNNN|<\w+>| \.\.\.( |$)", found.fix)
    # An assignment in front of `docker compose` is lost with the next plain one.
    assert not re.search(r"^[A-Z_]+=\S+ docker", found.command)


@pytest.mark.parametrize("target", load_targets().values(), ids=lambda target: target.gfx)
@pytest.mark.parametrize("is_container", [True, False])
def test_the_command_for_missing_kernels_names_an_image_or_a_wheel_that_exists(
    target, is_container
):
    torch = replace(ROCM, arch_list=("gfx90a",))
    found = check(1, **with_gfx(target.gfx), torch=torch, is_container=is_container)
    if target.gfx == "gfx90a":
        assert found.verdict == "ok"
        return
    wheel = find_wheel_target(target.gfx)
    if wheel is None:
        assert found.command == ("./up --cpu" if is_container else "")
    elif is_container:
        assert found.command == "./up --slim"
    else:
        assert f'"torch[device-{wheel.gfx}]"' in found.command


@pytest.mark.parametrize(("is_container", "fix"), [(True, "./up --full"), (False, "[device-all]")])
def test_a_gpu_of_unknown_arch_gets_a_build_for_all(is_container, fix):
    unnamed = CARD.model_copy(update={"gfx": None})
    found = check(2, torch=CPU_BUILD, gpus=(unnamed,), is_container=is_container)
    assert fix in found.fix
