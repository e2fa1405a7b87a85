import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from worker.hardware.facts.targets import find_target, find_wheel_target, load_targets

TARGETS = load_targets().values()
KNOWN = set(
    """
gfx803 gfx900 gfx902 gfx904 gfx906 gfx908 gfx909 gfx90a gfx90c gfx940 gfx941 gfx942 gfx950
gfx1010 gfx1011 gfx1012 gfx1013
gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 gfx1100 gfx1101 gfx1102 gfx1103
gfx1150 gfx1151 gfx1152 gfx1153 gfx1154 gfx1170 gfx1171 gfx1172 gfx1200 gfx1201 gfx1250 gfx1251
""".split()  # noqa: SIM905  # a list of 40 lines is harder to read
)
UNRATED = {
    "gfx904", "gfx909", "gfx940", "gfx941", "gfx1013", "gfx1154", "gfx1170", "gfx1171", "gfx1172",
    "gfx1250", "gfx1251",
}  # fmt: skip
"""Targets for which no rate was published."""
each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.gfx)


def test_every_possible_target_has_a_row():
    assert set(load_targets()) == KNOWN


@each_target
def test_a_row_is_consistent(target):
    # CDNA5 took over waves of 32 and WMMA from RDNA.
    is_rdna_like = target.family.startswith(("rdna", "cdna5"))
    assert target.wave_size == (32 if is_rdna_like else 64)
    assert (target.matrix_unit == "mfma") == target.family.startswith(
        ("cdna1", "cdna2", "cdna3", "cdna4")
    )
    assert target.matrix_unit == "none" or is_rdna_like == (target.matrix_unit == "wmma")
    assert target.has_bf16 == (target.matrix_unit != "none")
    assert target.precision != "bf16" or target.has_bf16
    assert target.precision != "fp16" or target.has_fp16
    rated = {"fp32", "fp16"} | ({"bf16"} if target.has_bf16 else set())
    assert set(target.flop_per_lane_per_clock) == (set() if target.gfx in UNRATED else rated)


@each_target
def test_a_row_names_its_sources(target):
    assert len(target.sources) >= 2
    assert all(target.sources)
    assert target.cards
    assert all(defect.text for defect in target.defects)
    assert all(re.search(r"read 20\d\d-\d\d-\d\d", defect.source) for defect in target.defects)


@each_target
def test_an_override_has_a_reason_and_never_applies_to_a_card_with_its_own_kernels(target):
    rule = target.override
    assert rule.why
    assert (rule.value is None) == (rule.needs is None)
    if rule.value is not None:
        assert find_target(rule.needs).family == target.family
        major, minor, stepping = re.fullmatch(r"gfx(\d+)(\w)(\w)", rule.needs).groups()
        assert rule.value == f"{major}.{int(minor, 16)}.{int(stepping, 16)}"
    if target.in_classic_wheels and not target.classic_torch_since:
        assert rule.value is None


@each_target
def test_a_target_that_no_wheel_is_built_for_is_refused_or_needs_an_override(target):
    if not target.in_classic_wheels and not target.in_therock:
        assert target.blocking or target.override.value


def test_targets_that_train_wrong_or_have_no_build_are_blocked():
    blocked = {target.gfx: target.blocking.code for target in TARGETS if target.blocking}
    no_wheel = (
        "gfx803", "gfx904", "gfx909", "gfx940", "gfx941", "gfx1154", "gfx1170", "gfx1171",
        "gfx1172", "gfx1251",
    )  # fmt: skip
    assert blocked == {**dict.fromkeys(no_wheel, "no_wheel"), "gfx1033": "trains_wrong"}


@each_target
def test_a_target_without_wheels_is_not_called_tested(target):
    assert (target.checked == "none") == (not target.in_therock)


@pytest.mark.parametrize(
    ("gfx", "checked"),
    [("gfx1201", "tested"), ("gfx1010", "tested"), ("gfx906", "built"), ("gfx1250", "built")],
)
def test_tested_targets_differ_from_those_that_are_only_built(gfx, checked):
    assert find_target(gfx).checked == checked


@pytest.mark.parametrize(
    ("gfx", "precision", "override"),
    [
        ("gfx1030", "fp16", None),
        ("gfx1031", "fp16", "10.3.0"),
        ("gfx1010", "fp16", None),
        ("gfx1102", "bf16", "11.0.0"),
        ("gfx1151", "bf16", None),
        ("gfx1201", "bf16", None),
        ("gfx90a", "bf16", None),
        ("gfx90c", "fp32", "9.0.0"),
    ],
)
def test_decisions_depend_on_the_target(gfx, precision, override):
    target = find_target(gfx)
    assert (target.precision, target.override.value) == (precision, override)


def test_feature_suffixes_do_not_change_the_target():
    assert find_target("gfx90a:sramecc+:xnack-") is find_target("gfx90a")
    assert find_target("sm_90") is None


def patterns_of(function):
    """The patterns by which the `case` of a function of `./up` says yes."""
    text = (Path(__file__).parents[4] / "up").read_text()
    body = text[text.index(f"{function}() {{") :]
    body = body[: body.index("esac")]
    arms = re.findall(r"(?:in|^ *)\s*(gfx[^)]*)\) return 0", body, re.M)
    return [pattern.strip() for arm in arms for pattern in arm.split("|")]


@each_target
def test_the_container_script_agrees_with_the_table(target):
    def says(function):
        return any(fnmatchcase(target.gfx, name) for name in patterns_of(function))

    assert says("is_blocked") == bool(target.blocking)
    assert says("has_wheel") == target.in_therock
    assert says("is_in_full_image") == target.in_full_image


@pytest.mark.parametrize(
    ("gfx", "wheels"),
    [
        ("gfx1100", "gfx1100"),
        ("gfx1012", "gfx1012"),
        ("gfx90c", "gfx900"),
        ("gfx902", "gfx900"),
        ("gfx1013", "gfx1010"),
        ("gfx803", None),
        ("gfx9999", None),
    ],
)
def test_a_target_without_wheels_uses_those_of_its_override(gfx, wheels):
    found = find_wheel_target(gfx)
    assert (found.gfx if found else None) == wheels
