import errno
import os

import pytest
import torch

from worker.checkpoints.checkpoint import BrokenCheckpointError, CheckpointStore


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "checkpoints")


def save(store, step, *, is_best=False, value=None):
    tensors = {"model/w": torch.full((4, 3), float(step if value is None else value))}
    return store.save(
        tensors,
        step=step,
        epoch=step // 10,
        is_best=is_best,
        metrics={"val/accuracy": 0.5},
        threads=1,
        device="cpu",
        state={"evaluated_step": step},
    )


def names(store):
    return sorted(path.name for path in store._folder.iterdir())


def test_a_checkpoint_comes_back_as_it_was_saved(store):
    saved = save(store, 10)
    loaded = store.load(saved.name)
    assert loaded.manifest == saved
    assert torch.equal(loaded.tensors_of("model")["w"], torch.full((4, 3), 10.0))
    assert names(store) == ["step-000000000010.json", "step-000000000010.safetensors"]


@pytest.mark.parametrize("name", ["step-000000000010", "step-000000000010.json"])
def test_a_checkpoint_loads_by_any_of_its_names(store, name):
    save(store, 10)
    assert store.load(name).manifest.step == 10


def test_the_best_and_the_last_two_are_kept(store):
    for step in (10, 20, 30, 40, 50):
        save(store, step, is_best=step in (10, 20))
    assert [m.step for m in store.manifests()] == [20, 40, 50]
    assert store.find_best().step == 20


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "manifest"])
def test_a_damaged_checkpoint_is_replaced_by_the_one_before(store, damage):
    save(store, 10)
    newest = store._folder / save(store, 20).name
    content = newest.read_bytes()
    match damage:
        case "truncate":
            newest.write_bytes(content[:-1])
        case "flip":
            newest.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "remove":
            newest.unlink()
        case "manifest":
            newest.with_suffix(".json").write_text("{")
    with pytest.raises(BrokenCheckpointError):
        store.load(newest.name)
    checkpoint, problems = store.load_newest(newest.name)
    assert checkpoint.manifest.step == 10
    assert len(problems) == 1
    assert "step-000000000020" in problems[0]


def test_without_a_usable_checkpoint_none_is_loaded(store):
    checkpoint, problems = store.load_newest("step-000000000020.safetensors")
    assert checkpoint is None
    assert problems


def test_a_full_disk_leaves_the_earlier_checkpoint_and_no_partial_file(store, monkeypatch):
    save(store, 10)
    before = names(store)

    def no_space(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        save(store, 20)
    assert names(store) == before
    assert store.load("step-000000000010").manifest.step == 10


def test_a_crash_between_the_two_files_leaves_no_partial_checkpoint(store, monkeypatch):
    save(store, 10)
    written = []
    replace = os.replace

    def crash_at_manifest(source, target, **kwargs):
        written.append(target)
        if len(written) == 2:
            raise KeyboardInterrupt
        replace(source, target, **kwargs)

    monkeypatch.setattr(os, "replace", crash_at_manifest)
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda self, target: crash_at_manifest(self, target)
    )
    with pytest.raises(KeyboardInterrupt):
        save(store, 20)
    monkeypatch.undo()
    assert [m.step for m in store.manifests()] == [10]
    assert store.load_newest("step-000000000020")[0].manifest.step == 10


def test_resuming_from_an_earlier_step_removes_later_checkpoints(store):
    save(store, 10)
    save(store, 20)
    store.drop_after(10)
    assert names(store) == ["step-000000000010.json", "step-000000000010.safetensors"]


def test_saving_a_step_again_replaces_it(store):
    save(store, 10, value=1)
    save(store, 10, value=2)
    assert float(store.load("step-000000000010").tensors["model/w"][0, 0]) == 2.0
