"""The graph names its sources, and knows which release has kernels for which card."""

import itertools
import re

import pytest

from worker.hardware.compat.graph import compare, has_kernels, is_of, load_graph
from worker.hardware.facts.targets import find_target, load_targets

GRAPH = load_graph()


def test_each_edge_and_release_has_a_source_and_a_date():
    for row in (*GRAPH.edge, *GRAPH.release):
        assert row.source
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.date)
        assert row.date <= GRAPH.version


def test_an_edge_names_known_cards_and_what_it_needs():
    for edge in GRAPH.edge:
        assert set(edge.gfx) <= set(load_targets())
        assert (edge.least is None) == (edge.level in ("broken", "unknown"))
        assert bool(edge.values) == (edge.level == "broken")


def test_every_card_has_one_edge_to_its_kernel_or_one_that_says_none_is_known():
    kernels = [gfx for edge in GRAPH.edge if edge.part == "kernel" for gfx in edge.gfx]
    assert sorted(kernels) == sorted(load_targets())


def test_releases_are_listed_from_the_newest():
    found = [release.rocm for release in GRAPH.release]
    assert all(compare(left, right) > 0 for left, right in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("gfx", "releases"),
    [
        ("gfx1100", ["10.1", "10.0", "7.14", "7.2"]),
        ("gfx1031", ["10.1", "10.0", "7.14"]),  # only AMD's wheels have its kernels
        ("gfx900", ["10.1", "10.0", "7.14", "7.2"]),
        ("gfx803", []),
    ],
)
def test_a_card_has_the_releases_with_its_kernels(gfx, releases):
    assert [release.rocm for release in GRAPH.releases_for(find_target(gfx))] == releases


def test_classic_wheels_end_with_the_last_release_that_had_a_target():
    target = find_target("gfx900")
    last = GRAPH.release[-1]
    assert has_kernels(target, last)
    assert not has_kernels(target, last.model_copy(update={"rocm": "7.3"}))


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [("6.18.3-generic", "6.18.4", -1), ("6.18", "6.18.0", 0), ("7.0", "6.18.4", 1), ("x", "1", -1)],
)
def test_versions_are_compared_by_their_numbers(left, right, sign):
    assert compare(left, right) == sign


def test_a_version_belongs_to_the_release_whose_numbers_it_begins_with():
    assert is_of("10.0.2", "10.0")
    assert is_of("2.13.0+rocm10.0", "2.13")
    assert not is_of("2.130.0", "2.13")
    assert not is_of("10", "10.0")


@pytest.mark.parametrize("target", load_targets().values(), ids=lambda target: target.gfx)
def test_a_release_names_images_only_for_cards_whose_kernels_they_have(target):
    images = [image for release in GRAPH.releases_for(target) for image in release.images]
    assert target.in_full_image or not images
