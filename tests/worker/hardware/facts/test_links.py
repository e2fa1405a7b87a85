from dataclasses import replace

from tests.worker.hardware.trees import MI300X, RX_6800_XT, row_of, write_machine
from worker.hardware.facts.kfd import read_topology


def links_of(root, gpus, **shape):
    first = read_topology(write_machine(root, gpus, **shape).topology_dir)[0]
    return first.links


def test_a_direct_link_to_the_cpu_is_one_hop(tmp_path):
    (link,) = links_of(tmp_path, [RX_6800_XT])
    assert (link.to_node, link.to_pci_address, link.kind, link.hops) == (0, None, "pcie", 1)
    assert (link.weight, link.max_bandwidth_bytes_per_second) == (20, 32_000_000_000)


def test_cards_on_one_cpu_are_two_hops_apart_and_on_two_cpus_three(tmp_path):
    links = links_of(tmp_path, row_of(RX_6800_XT, 4), num_cpus=2)
    hops = {link.to_pci_address: link.hops for link in links if link.to_pci_address}
    assert hops == {"0000:13:00.0": 2, "0000:23:00.0": 3, "0000:33:00.0": 3}
    assert {link.max_bandwidth_bytes_per_second for link in links if link.hops != 1} == {None}


def test_cards_of_a_hive_are_one_hop_apart(tmp_path):
    links = links_of(tmp_path, row_of(MI300X, 8), num_cpus=2, has_xgmi=True)
    fabric = [link for link in links if link.kind == "xgmi"]
    assert len(fabric) == 7
    assert {link.hops for link in fabric} == {1}
    assert {link.max_bandwidth_bytes_per_second for link in fabric} == {50_000_000_000}


def test_hops_of_the_fabric_are_in_the_weight(tmp_path):
    machine = write_machine(tmp_path, row_of(MI300X, 2), has_xgmi=True)
    path = machine.node_dir(1) / "io_links/1/properties"
    path.write_text(path.read_text().replace("weight 15", "weight 45"))
    far = read_topology(machine.topology_dir)[0].links[1]
    assert (far.kind, far.hops) == ("xgmi", 3)


def test_missing_atomics_are_reported_only_if_the_flags_are_set(tmp_path):
    cases = {
        0: (None, None),
        1: (True, True),
        3: (True, True),
        5: (False, True),
        13: (False, False),
    }
    for flags, atomics in cases.items():
        (link,) = links_of(tmp_path / str(flags), [replace(RX_6800_XT, link_flags=flags)])
        assert (link.has_atomics_32, link.has_atomics_64) == atomics


def test_a_path_whose_links_are_lost_has_no_hops(tmp_path):
    machine = write_machine(tmp_path, row_of(RX_6800_XT, 2))
    (machine.node_dir(1) / "io_links/0/properties").write_text("")
    (link,) = read_topology(machine.topology_dir)[0].links
    assert (link.to_node, link.hops) == (2, None)
