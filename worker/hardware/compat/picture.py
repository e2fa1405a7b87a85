"""The graph of one card as a picture: its parts in columns, and a line for each edge.

A machine's own parts are drawn in its colours: green where they fit, red where they have to change.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.hardware.compat.graph import Edge, Graph, Release
from worker.hardware.compat.judge import Compatibility
from worker.hardware.facts.targets import Target, find_target

INK = "#22262b"
MUTED = "#7a828c"
LINE = "#c3c9d0"
FILL = "#f2f4f6"
GOOD, BAD = "#d8f0dd", "#f8d7d3"
COLUMNS = ("card", "kernel", "driver", "ROCm", "wheels", "torch", "Python", "image")
WIDTH, HEIGHT = 1.9, 0.62


@dataclass(frozen=True)
class Node:
    """A box: its column, its words, and its colour."""

    column: str
    label: str


def draw_graph(path: Path, graph: Graph, what: Compatibility | Target) -> None:
    """Draw one card's part of the graph.

    Args:
        path: A file that ends in .svg or .png.
        graph: The graph.
        what: A machine that was judged, or only a card.
    """
    from matplotlib import pyplot as plt

    target = what if isinstance(what, Target) else find_target(what.gfx)
    assert target is not None, "judged before"
    edges = list(dict.fromkeys(list_edges(target, graph)))
    places = place_nodes(edges, Node("card", target.gfx))
    rows = max(row for _, row in places.values()) + 1
    sources = list_sources(target, graph)
    below = 0.2 * len(sources) + 0.3
    size = (WIDTH * len(COLUMNS), HEIGHT * rows + 1.1 + below)
    figure = plt.figure(figsize=size)
    axis = figure.add_axes((0, below / size[1], 1, (HEIGHT * rows + 0.6) / size[1]))
    for number, column in enumerate(COLUMNS):
        axis.text(number * WIDTH, HEIGHT * 0.9, column, ha="center", color=MUTED, fontsize=9)
    for left, right in edges:
        _draw_edge(axis, places[left], places[right])
    colours = dict(_colours(what)) if isinstance(what, Compatibility) else {}
    for node, place in places.items():
        _draw_node(axis, node, place, colour=colours.get(node, FILL))
    axis.set_xlim(-WIDTH / 2, WIDTH * (len(COLUMNS) - 0.5))
    axis.set_ylim(-HEIGHT * (rows - 0.5), HEIGHT * 1.4)
    axis.axis("off")
    title = f"{target.gfx}: {target.cards}"
    figure.text(0.02, 1 - 0.3 / size[1], title, fontsize=12, fontweight="bold", color=INK)
    for number, words in enumerate((f"graph of {graph.version}", *sources)):
        height = (below - 0.2 * (number + 0.5)) / size[1]
        figure.text(0.02, height, words, fontsize=7.5, color=MUTED)
    # Text stays text, and the same graph gives the same file.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "redkiln"}):
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def list_edges(target: Target, graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Yield the edges of a card from left to right."""
    card = Node("card", target.gfx)
    kernels = [
        Node("kernel", _kernel_words(edge))
        for edge in graph.edges_of(target.gfx)
        if edge.part == "kernel"
    ]
    yield from ((card, kernel) for kernel in kernels)
    for release in graph.releases_for(target):
        driver = driver_node(release)
        yield from ((kernel, driver) for kernel in kernels)
        yield from _release_edges(release, driver)


def _kernel_words(edge: Edge) -> str:
    if edge.least is None:
        return "not known"
    return f"{edge.least} or newer" if edge.level == "needs" else f"{edge.least} (listed)"


def list_sources(target: Target, graph: Graph) -> list[str]:
    """Return the sources of a card's edges, with what each says."""
    cards = [f"{edge.part}: {edge.source}, {edge.date}" for edge in graph.edges_of(target.gfx)]
    releases = [
        f"ROCm {release.rocm}: {release.source}, {release.date}"
        for release in graph.releases_for(target)
    ]
    return cards + releases


def driver_node(release: Release) -> Node:
    """Return the box of the drivers that a release runs on."""
    return Node("driver", f"kernel's, or\n{release.driver_name.split()[0]} or newer")


def place_nodes(edges: Iterable[tuple[Node, Node]], first: Node) -> dict[Node, tuple[int, int]]:
    """Return the column and row of each node, in the order in which they appear."""
    rows = dict.fromkeys(COLUMNS, 0)
    places: dict[Node, tuple[int, int]] = {}
    for node in (first, *(node for edge in edges for node in edge)):
        if node not in places:
            places[node] = (COLUMNS.index(node.column), rows[node.column])
            rows[node.column] += 1
    return places


def _release_edges(release: Release, driver: Node) -> Iterator[tuple[Node, Node]]:
    rocm = Node("ROCm", release.rocm)
    python = Node("Python", " ".join(release.python))
    by = "AMD" if release.wheels == "therock" else "pytorch.org"
    wheels = Node("wheels", f"{by}\nfor ROCm {release.rocm}")
    yield driver, rocm
    yield rocm, wheels
    for version in release.torch:
        yield wheels, Node("torch", version)
        yield Node("torch", version), python
    for image in release.images:
        yield python, Node("image", image.partition(":")[2].replace("_pytorch", "\npytorch"))


def _colours(found: Compatibility) -> Iterator[tuple[Node, str]]:
    """Yield the colours of the boxes that the machine's parts are in."""
    yield Node("card", found.gfx), BAD if found.reason else GOOD
    if found.release is None:
        return
    for part in found.parts:
        colour = BAD if part.is_bad else GOOD
        if part.part == "ROCm":
            yield Node("ROCm", found.release.rocm), colour
        elif part.part == "driver":
            yield driver_node(found.release), colour
        elif part.part == "torch" and part.found is not None:
            for version in found.release.torch:
                if part.found.startswith(version):
                    yield Node("torch", version), colour
        elif part.part == "kernel" and part.found is not None:
            for words in (f"{part.least} or newer", f"{part.least} (listed)"):
                yield Node("kernel", words), colour


def _draw_edge(axis: Any, left: tuple[int, int], right: tuple[int, int]) -> None:
    x = [left[0] * WIDTH, right[0] * WIDTH]
    axis.plot(x, [-left[1] * HEIGHT, -right[1] * HEIGHT], color=LINE, linewidth=1, zorder=1)


def _draw_node(axis: Any, node: Node, place: tuple[int, int], *, colour: str) -> None:
    box = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": LINE}
    axis.text(
        place[0] * WIDTH, -place[1] * HEIGHT, node.label, ha="center", va="center",
        fontsize=6.5 if node.column == "image" else 8, color=INK, bbox=box, zorder=2,
    )  # fmt: skip
