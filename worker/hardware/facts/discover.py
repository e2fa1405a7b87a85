"""Finds a machine's GPUs: joins topology and cards, and adds facts from the tables."""

from collections.abc import Sequence
from pathlib import Path

from redkiln.views.hardware import GpuFacts
from worker.hardware.facts.cards import DRM_DIR, Card, read_cards
from worker.hardware.facts.devices import find_product
from worker.hardware.facts.kfd import TOPOLOGY_DIR, read_topology
from worker.hardware.facts.peak import compute_peak_tflops
from worker.hardware.facts.sysfs import Read, read_file, read_integer
from worker.hardware.facts.targets import find_target
from worker.hardware.facts.telemetry import read_telemetry


def discover_gpus(
    *,
    topology_dir: Path | None = TOPOLOGY_DIR,
    drm_dir: Path | None = DRM_DIR,
    with_telemetry: bool = False,
    read: Read = read_file,
) -> list[GpuFacts]:
    """Find all GPUs of a machine or of a captured tree, in the order of their KFD nodes.

    A card that the driver does not offer for computing comes last, with `node` None, and with
    `is_accessible` False if there is a topology that lacks it.

    Args:
        topology_dir: Root of the KFD topology; None: do not read it.
        drm_dir: Folder of the cards; None: do not read it.
        with_telemetry: Whether to read the sensors of each GPU with a card once.
        read: Function that reads a file.
    """
    nodes = read_topology(topology_dir, read=read) if topology_dir else []
    cards = read_cards(drm_dir, read=read) if drm_dir else []
    pairs = join_cards(nodes, cards)
    return [
        complete_facts(facts, card=card, with_telemetry=with_telemetry, read=read)
        for facts, card in pairs
    ]


def join_cards(
    nodes: Sequence[GpuFacts], cards: Sequence[Card]
) -> list[tuple[GpuFacts, Card | None]]:
    """Join each GPU with its card, by PCI address or render node; add the cards without a GPU."""
    joined = [(facts, _find_card(facts, cards)) for facts in nodes]
    taken = [card for _, card in joined if card is not None]
    left = [card for card in cards if card not in taken]
    if any(not facts.is_accessible for facts in nodes):
        left = []  # these are most likely the cards of the unreadable nodes
    is_offered = not nodes
    alone = [(GpuFacts(is_accessible=is_offered), card) for card in left]
    return [*joined, *alone]


def complete_facts(
    facts: GpuFacts, *, card: Card | None, with_telemetry: bool = False, read: Read = read_file
) -> GpuFacts:
    """Add facts from the card and the tables; facts from the topology are kept."""
    if card is not None:
        facts = _add_card(facts, card)
    facts = _add_product(facts, revision=card.revision if card else None)
    if card is not None:
        facts = _add_memory(facts, card, read=read)
    telemetry = read_telemetry(card.device_dir, read=read) if card and with_telemetry else None
    return facts.model_copy(
        update={"peak_tflops": compute_peak_tflops(facts), "telemetry": telemetry}
    )


def _find_card(facts: GpuFacts, cards: Sequence[Card]) -> Card | None:
    for card in cards:
        if facts.pci_address and card.pci_address:
            if facts.pci_address == card.pci_address:
                return card
        elif facts.render_minor is not None and facts.render_minor == card.render_minor:
            return card
    return None


def _add_card(facts: GpuFacts, card: Card) -> GpuFacts:
    found = {
        "pci_address": card.pci_address,
        "vendor_id": card.vendor_id,
        "device_id": card.device_id,
        "unique_id": card.unique_id,
        "render_minor": card.render_minor,
    }
    missing = {name: value for name, value in found.items() if getattr(facts, name) is None}
    own = {"card": card.number, "drives_display": card.drives_display}
    return facts.model_copy(update={**missing, **own})


def _add_product(facts: GpuFacts, *, revision: int | None) -> GpuFacts:
    product = (
        find_product(facts.device_id, revision=revision, cu_count=facts.cu_count)
        if facts.device_id is not None
        else None
    )
    gfx = facts.gfx or (product.gfx if product else None)
    target = find_target(gfx) if gfx else None
    is_apu = product.is_apu if product else target.is_apu if target else None
    return facts.model_copy(
        update={
            "gfx": gfx,
            "is_gfx_inferred": facts.gfx is None and gfx is not None,
            "name": product.name if product else None,
            "is_apu": is_apu,
            "is_memory_approximate": bool(is_apu),
            # A partition has only a share of it, which no file reports.
            "memory_bandwidth_bytes_per_second": (
                product.bandwidth_bytes_per_second if product and facts.partition is None else None
            ),
        }
    )


def _add_memory(facts: GpuFacts, card: Card, *, read: Read) -> GpuFacts:
    """Add the driver's memory size of the card; for an APU, the host's memory that GTT allows."""
    name = "mem_info_gtt_total" if facts.is_apu else "mem_info_vram_total"
    if facts.vram_bytes is not None and not facts.is_apu:
        return facts
    total = read_integer(f"{card.device_dir}/{name}", read=read)
    return facts.model_copy(update={"vram_bytes": total}) if total and total > 0 else facts
