import os

from docker.worker import find_nodes, find_unwritable, main, read_capabilities


def test_the_nodes_of_a_dev_folder_are_found_without_the_displays(tmp_path):
    (tmp_path / "dri").mkdir()
    for name in ("kfd", "dri/renderD128", "dri/renderD129", "dri/card0", "null"):
        (tmp_path / name).touch(0o660)
    (tmp_path / "dri/by-path").mkdir()
    found = find_nodes(tmp_path)
    names = [os.path.relpath(node.path, tmp_path) for node in found]
    assert names == ["dri/renderD128", "dri/renderD129", "kfd"]
    assert {node.mode for node in found} == {0o660 & ~_umask()}
    assert {(node.uid, node.gid) for node in found} == {(os.getuid(), os.getgid())}


def test_effective_capabilities_are_read_from_the_status():
    status = "Name:\tpython\nCapInh:\t0000000000000000\nCapEff:\t00000000000000c0\n"
    assert read_capabilities(status) == 0xC0


def test_an_unwritable_folder_is_named(tmp_path):
    given = {"REDKILN_WORKER_DIR": str(tmp_path), "REDKILN_LOCK_DIR": str(tmp_path / "none")}
    assert str(tmp_path / "none") in find_unwritable(given)
    assert find_unwritable({"REDKILN_WORKER_DIR": str(tmp_path)}) is None


def test_a_misspelt_expectation_lists_the_allowed_ones(monkeypatch, capsys):
    monkeypatch.setenv("REDKILN_DEVICES", "nvidia")
    assert main(["true"]) == 78
    assert "amd, wsl, vulkan, none" in capsys.readouterr().err


def test_without_the_device_it_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr("docker.worker.find_nodes", lambda _: [])  # whatever this machine has
    monkeypatch.setenv("REDKILN_DEVICES", "amd")
    assert main(["true"]) == 78
    assert "./up --cpu" in capsys.readouterr().err


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
