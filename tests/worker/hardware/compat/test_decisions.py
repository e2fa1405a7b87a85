"""What is decided for each kind of GPU is what the tables and patches say."""

import pytest

from worker.hardware.compat.decisions import CHECKED, decide_target, find_common_patches
from worker.hardware.facts.targets import find_target, load_targets

ALL = {gfx: decide_target(target) for gfx, target in load_targets().items()}


def test_every_target_has_a_source_and_a_verdict_on_its_builds():
    for each in ALL.values():
        assert each.sources
        assert each.date >= "2026-11-21"
        assert each.checked in CHECKED.values()
        assert each.wheels == "none" or each.checked != "not built"


@pytest.mark.parametrize(
    ("gfx", "precision", "images"),
    [
        ("gfx1100", "bf16", "slim, full"),
        ("gfx1031", "fp16", "slim, full"),
        ("gfx1153", "bf16", "slim, full"),
        ("gfx1250", "bf16", "slim"),
        ("gfx90c", "fp32", "slim for gfx900"),
        ("gfx1013", "fp16", "slim for gfx1010"),
        ("gfx900", "fp16", "slim"),
        ("gfx1033", "refused", "none"),
        ("gfx803", "refused", "none"),
    ],
)
def test_a_target_trains_in_its_precision_from_its_images(gfx, precision, images):
    assert (ALL[gfx].precision, ALL[gfx].images) == (precision, images)


def test_an_override_is_named_only_where_the_table_allows_one():
    assert ALL["gfx1031"].override == "10.3.0"
    assert ALL["gfx1100"].override == ""


def test_wheels_name_their_builder_and_newest_release():
    assert ALL["gfx1100"].wheels == "AMD (ROCm 10.1), pytorch.org (ROCm 7.2)"
    assert ALL["gfx803"].wheels == "none"


def test_patches_that_apply_everywhere_are_named_once():
    chosen = [ALL["gfx1100"], ALL["gfx1201"]]
    common = find_common_patches(chosen)
    assert common
    assert all(set(common) <= set(each.patches) for each in chosen)
    assert find_common_patches([]) == ()


def test_nothing_is_patched_on_a_target_that_is_refused():
    assert decide_target(find_target("gfx1033")).patches == ()
    assert find_common_patches([ALL["gfx1033"]]) == ()
