"""The picture of the graph has a box for each part and a line for each edge."""

import pytest

from worker.hardware.compat.graph import load_graph
from worker.hardware.compat.judge import Stack, judge
from worker.hardware.compat.picture import COLUMNS, Node, draw_graph, list_edges, place_nodes
from worker.hardware.facts.targets import find_target

GRAPH = load_graph()


def test_edges_run_from_left_to_right_and_reach_every_image():
    edges = list(list_edges(find_target("gfx1100"), GRAPH))
    assert all(COLUMNS.index(a.column) < COLUMNS.index(b.column) for a, b in edges)
    images = {right.label for _, right in edges if right.column == "image"}
    assert len(images) == sum(len(release.images) for release in GRAPH.release)


def test_no_two_boxes_share_a_place():
    edges = list(list_edges(find_target("gfx1101"), GRAPH))
    places = place_nodes(edges, Node("card", "gfx1101"))
    assert len(set(places.values())) == len(places)


@pytest.mark.parametrize(
    ("gfx", "words"),
    [("gfx1250", "7.0 or newer"), ("gfx902", "6.6 (listed)"), ("gfx1171", "not known")],
)
def test_the_kernel_of_a_card_is_drawn_as_far_as_it_is_known(gfx, words):
    edges = list_edges(find_target(gfx), GRAPH)
    assert words in {right.label for _, right in edges if right.column == "kernel"}


def test_a_machine_is_drawn_in_its_colours(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    old = judge("gfx1151", Stack(kernel="6.14", has_driver=True, rocm="10.0", torch="2.13.0"))
    path = tmp_path / "graph.svg"
    draw_graph(path, GRAPH, old)
    text = path.read_text()
    assert "#f8d7d3" in text  # the kernel has to change
    assert "#d8f0dd" in text
