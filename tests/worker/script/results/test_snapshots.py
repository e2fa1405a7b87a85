import hashlib
import json
import os

import pytest

from worker.process.failed import TrainingFailed
from worker.script.results.snapshots import Snapshots, restore


class Eager(Snapshots):
    """Finds a folder quiet at once: looked at twice."""

    def look(self, pids, *, step, is_over=False):
        super().look(pids, step=step)
        super().look(pids, step=step, is_over=is_over)


@pytest.fixture
def snapshots(paths, job_dir, event_log, clock):
    snapshots = Eager(paths.checkpoints_dir, job_dir.checkpoints_dir, event_log, clock=clock)
    snapshots.begin(after=None)
    return snapshots


def announced(events):
    return [(data["step"], data["file"]) for data in events("checkpoint")]


def test_a_folder_is_restored_unchanged(snapshots, paths, job_dir, events, tmp_path):
    (paths.checkpoints_dir / "epoch-1").mkdir()
    (paths.checkpoints_dir / "epoch-1" / "model.pt").write_bytes(b"weights")
    snapshots.look([], step=7)
    assert announced(events) == [(7, "step-000000000007.tar")]
    back = tmp_path / "back"
    back.mkdir()
    assert restore(job_dir.checkpoints_dir / "step-000000000007.tar", back) == 1
    assert (back / "epoch-1" / "model.pt").read_bytes() == b"weights"


def test_empty_folders_are_restored_too(snapshots, paths, job_dir, tmp_path):
    for name in ("logs", "a/b/c", "files", ".cache/empty", "hidden"):
        (paths.checkpoints_dir / name).mkdir(parents=True)
    (paths.checkpoints_dir / "files" / "state").write_bytes(b"x")
    (paths.checkpoints_dir / "hidden" / ".lock").touch()
    snapshots.look([], step=1)
    back = tmp_path / "back"
    back.mkdir()
    assert restore(job_dir.checkpoints_dir / "step-000000000001.tar", back) == 1
    found = {path.relative_to(back).as_posix() for path in back.rglob("*")}
    assert found == {"logs", "a", "a/b", "a/b/c", "files", "files/state", "hidden"}


def test_folders_alone_make_no_checkpoint(snapshots, paths, events):
    (paths.checkpoints_dir / "logs").mkdir()
    snapshots.look([], step=1, is_over=True)
    assert announced(events) == []


def test_the_manifest_has_the_snapshots_digest(snapshots, paths, job_dir):
    (paths.checkpoints_dir / "a").write_bytes(b"x")
    snapshots.look([], step=1)
    packed = job_dir.checkpoints_dir / "step-000000000001.tar"
    manifest = json.loads(packed.with_suffix(".json").read_text())
    assert manifest["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert (manifest["size_bytes"], manifest["format"]) == (packed.stat().st_size, "folder")


def test_without_changes_no_snapshot_and_without_steps_the_number_increases(
    snapshots, paths, clock, events
):
    snapshots.look([], step=0)
    assert announced(events) == []
    (paths.checkpoints_dir / "a").write_bytes(b"1")
    snapshots.look([], step=0)
    clock.now += 100
    snapshots.look([], step=0)
    (paths.checkpoints_dir / "a").write_bytes(b"22")
    snapshots.look([], step=0)
    assert [step for step, _ in announced(events)] == [1, 2]


def test_a_file_being_written_delays_the_snapshot(snapshots, paths, events):
    with (paths.checkpoints_dir / "a").open("wb") as file:
        file.write(b"x")
        file.flush()
        snapshots.look([os.getpid()], step=1)
        assert announced(events) == []
    snapshots.look([os.getpid()], step=1)
    assert len(announced(events)) == 1


def test_snapshots_are_taken_after_a_pause_and_at_the_end(snapshots, paths, clock, events):
    for number in range(3):
        (paths.checkpoints_dir / "a").write_bytes(b"x" * (number + 1))
        snapshots.look([], step=number)
    assert len(announced(events)) == 1
    snapshots.look([], step=9, is_over=True)
    assert [step for step, _ in announced(events)] == [1, 9]


def test_restored_content_is_not_saved_again(paths, job_dir, event_log, events):
    (paths.checkpoints_dir / "a").write_bytes(b"x")
    snapshots = Snapshots(paths.checkpoints_dir, job_dir.checkpoints_dir, event_log)
    snapshots.begin(after="step-000000000040.tar")
    snapshots.look([], step=0, is_over=True)
    assert announced(events) == []
    (paths.checkpoints_dir / "b").write_bytes(b"x")
    snapshots.look([], step=3, is_over=True)
    assert [step for step, _ in announced(events)] == [41]


def test_two_snapshots_are_kept_on_the_worker(snapshots, paths, job_dir, clock):
    for number in range(4):
        (paths.checkpoints_dir / "a").write_bytes(b"x" * (number + 1))
        clock.now += 1000
        snapshots.look([], step=number + 1)
    kept = sorted(path.name for path in job_dir.checkpoints_dir.glob("*.tar"))
    assert kept == ["step-000000000003.tar", "step-000000000004.tar"]


def test_a_damaged_snapshot_is_reported(tmp_path):
    (tmp_path / "step.tar").write_bytes(b"no tar")
    with pytest.raises(TrainingFailed, match="the checkpoint cannot be unpacked"):
        restore(tmp_path / "step.tar", tmp_path)


def test_only_links_within_the_folder_are_restored(paths, snapshots, job_dir, tmp_path):
    folder = paths.checkpoints_dir
    (folder / "checkpoint-10").mkdir()
    (folder / "checkpoint-10" / "model").write_bytes(b"w")
    os.link(folder / "checkpoint-10" / "model", folder / "same")
    (folder / "latest").symlink_to("checkpoint-10")
    (folder / "out").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("../code")
    snapshots.look([], step=1, is_over=True)
    back = tmp_path / "back"
    back.mkdir()
    restore(job_dir.checkpoints_dir / "step-000000000001.tar", back)
    assert (back / "latest" / "model").read_bytes() == b"w"
    assert (back / "same").read_bytes() == b"w"
    assert not (back / "out").is_symlink()
    assert not (back / "up").is_symlink()


def test_a_file_removed_during_packing_prevents_the_snapshot(snapshots, paths, events):
    (paths.checkpoints_dir / "a").write_bytes(b"x")
    (paths.checkpoints_dir / "b").write_bytes(b"x")
    scan = snapshots._files.scan
    snapshots._files.scan = lambda: [*scan(), ("gone", next(iter(dict(scan()).values())))]
    snapshots.look([], step=1, is_over=True)
    assert announced(events) == []
    snapshots._files.scan = scan
    snapshots.look([], step=1, is_over=True)
    assert [step for step, _ in announced(events)] == [1]


def test_an_open_log_does_not_prevent_snapshots(paths, job_dir, event_log, clock, events):
    snapshots = Eager(paths.checkpoints_dir, job_dir.checkpoints_dir, event_log, clock=clock)
    snapshots._files._clock = clock
    snapshots.begin(after=None)
    with (paths.checkpoints_dir / "events.log").open("wb") as log:
        log.write(b"x")
        log.flush()
        (paths.checkpoints_dir / "model").write_bytes(b"w")
        snapshots.look([os.getpid()], step=1)
        assert announced(events) == []
        clock.now += 200
        snapshots.look([os.getpid()], step=1)
        assert [step for step, _ in announced(events)] == [1]


def test_a_checkpoint_of_many_files_is_saved_when_the_folder_is_quiet(
    paths, job_dir, event_log, clock, events
):
    snapshots = Snapshots(paths.checkpoints_dir, job_dir.checkpoints_dir, event_log, clock=clock)
    snapshots.begin(after=None)
    (paths.checkpoints_dir / "model").write_bytes(b"w")
    snapshots.look([], step=1)
    (paths.checkpoints_dir / "optimizer").write_bytes(b"o")
    snapshots.look([], step=1)
    assert announced(events) == []
    snapshots.look([], step=1)
    assert len(announced(events)) == 1


def test_a_folder_that_always_changes_is_still_saved(paths, job_dir, event_log, clock, events):
    snapshots = Snapshots(paths.checkpoints_dir, job_dir.checkpoints_dir, event_log, clock=clock)
    snapshots.begin(after=None)
    for number in range(6):
        (paths.checkpoints_dir / "state").write_bytes(b"x" * (number + 1))
        snapshots.look([], step=number + 1)
        clock.now += 1.0
    assert len(announced(events)) == 1


def test_packing_and_restoring_send_heartbeats(
    snapshots, paths, job_dir, events, tmp_path, beat_at_once
):
    (paths.checkpoints_dir / "model").write_bytes(b"w" * 3_000_000)
    snapshots.look([], step=1)
    said = [data["text"] for data in events("message")]
    assert said[0].startswith("still saving the script's checkpoints after")
    beats = []
    back = tmp_path / "back"
    back.mkdir()
    restore(job_dir.checkpoints_dir / "step-000000000001.tar", back, beat=lambda: beats.append(1))
    assert len(beats) >= 2


def test_unsaved_files_are_reported_once_and_inner_links_are_kept(snapshots, paths, events):
    (paths.checkpoints_dir / "a.pt").write_bytes(b"x")
    (paths.checkpoints_dir / "last.pt").symlink_to("a.pt")
    (paths.checkpoints_dir / "out.pt").symlink_to("/etc/hostname")
    snapshots.look([], step=1)
    snapshots.look([], step=2)
    (told,) = [data for data in events("warning") if data["code"] == "file_left_out"]
    assert "'out.pt' is not saved in checkpoints" in told["message"]
