import errno
import fcntl
import resource
import zipfile
from pathlib import Path

import numpy as np
import pytest

from redkiln.failure import FailureCode
from redkiln.predict.pixels import PixelFormat
from worker.process.failed import TrainingFailed
from worker.trainer.images.decode import together as together
from worker.trainer.images.decode.blocks import DecodeOrder, Outcome
from worker.trainer.images.decode.facts import count_levels, no_levels
from worker.trainer.images.decode.together import decode_together, num_helpers

FORMAT = PixelFormat(size=12, channels=3, resize="stretch")


@pytest.fixture
def make_work(tmp_path, make_index):
    """Builds the arguments of `decode_together` for a set's files, in a separate folder."""

    def make(files, name="work"):
        folder = tmp_path / name
        folder.mkdir()
        with zipfile.ZipFile(folder / "data.zip", "w") as archive:
            for member, content in files.items():
                archive.writestr(member, content)
        index = make_index(files)
        (folder / "index.json").write_text(index.model_dump_json())
        (folder / "images").write_bytes(bytes(len(files) * FORMAT.num_bytes))
        work = DecodeOrder(
            folder=str(folder),
            source_path=str(folder / "data.zip"),
            index_path=str(folder / "index.json"),
            images_path=str(folder / "images"),
            offset=0,
            pixel_format=FORMAT,
        )
        return work, index

    return make


@pytest.fixture
def helpers_at_once(monkeypatch):
    """Helpers start at the first row, even for a small set."""
    for name, value in (("ROWS_A_HELPER", 20), ("HELPER_SECONDS", 0.0), ("TELL_SECONDS", 0.0)):
        monkeypatch.setattr(together, name, value)


@pytest.fixture
def helpers_alone(monkeypatch, helpers_at_once):
    """Helpers have all of the work to do."""

    def leave_it_all(_work, _index, _queue, *, on_row):
        on_row()
        return Outcome(levels=no_levels(FORMAT).tolist())

    monkeypatch.setattr(together, "decode_blocks", leave_it_all)


def images_of(work):
    return np.fromfile(work.images_path, dtype=np.uint8).reshape(-1, *FORMAT.shape)


@pytest.mark.parametrize(
    ("num_rows", "cores", "expected"), [(999, 8, 0), (1000, 8, 1), (5000, 1, 0), (10**6, 16, 15)]
)
def test_helpers_are_started_only_for_enough_rows(num_rows, cores, expected):
    assert num_helpers(num_rows, cores=cores) == expected


def test_helpers_decode_the_same_pixels_as_this_process(make_work, files, request):
    content = files(train=100)
    mine, index = make_work(content, "mine")
    levels = decode_together(mine, index, cores=1, on_progress=lambda _done, _total: None)
    assert np.array_equal(levels, count_levels(images_of(mine), range(len(index.splits["train"]))))
    request.getfixturevalue("helpers_alone")
    theirs, _ = make_work(content, "theirs")
    told = []
    of_helpers = decode_together(
        theirs, index, cores=3, on_progress=lambda *progress: told.append(progress)
    )
    assert np.array_equal(images_of(theirs), images_of(mine))
    assert np.array_equal(of_helpers, levels)
    assert told[-1] == (len(content), len(content))


@pytest.mark.usefixtures("helpers_alone")
def test_an_error_names_the_first_of_several_bad_samples(make_work, files):
    content = files(train=100)
    names = sorted(name for name in content if name.startswith("train"))
    bad = {names[10]: b"", names[250]: b""}
    work, index = make_work(content | bad)
    with pytest.raises(TrainingFailed, match=names[10]):
        decode_together(work, index, cores=3, on_progress=lambda _done, _total: None)


@pytest.fixture
def instead_of_helpers(monkeypatch):
    """Starts another command in the place of each helper."""
    start = together.subprocess.Popen

    def replace(command):
        monkeypatch.setattr(
            together.subprocess, "Popen", lambda _, **options: start(command, **options)
        )

    return replace


@pytest.mark.usefixtures("helpers_alone")
def test_a_killed_helper_fails_the_decoding_as_retryable(make_work, files, instead_of_helpers):
    work, index = make_work(files())
    instead_of_helpers(["sh", "-c", "kill -KILL $$"])
    with pytest.raises(TrainingFailed, match="out of memory") as caught:
        decode_together(work, index, cores=2, on_progress=lambda _done, _total: None)
    assert caught.value.failure.code is FailureCode.KILLED
    assert caught.value.failure.retryable


@pytest.mark.usefixtures("helpers_alone")
def test_a_crashed_helper_fails_the_decoding(make_work, files, instead_of_helpers):
    work, index = make_work(files())
    instead_of_helpers(["false"])
    with pytest.raises(RuntimeError, match="ended with status 1"):
        decode_together(work, index, cores=2, on_progress=lambda _done, _total: None)


@pytest.mark.usefixtures("helpers_alone")
def test_a_system_error_in_a_helper_is_raised_as_the_same_error(make_work, files, monkeypatch):
    work, index = make_work(files(train=100))
    start = together.subprocess.Popen

    def with_no_room(command, **options):
        # Nothing may be written beyond the first image.
        limit = (FORMAT.num_bytes, resource.RLIM_INFINITY)
        helper = start(command, **options)
        resource.prlimit(helper.pid, resource.RLIMIT_FSIZE, limit)
        return helper

    monkeypatch.setattr(together.subprocess, "Popen", with_no_room)
    with pytest.raises(OSError, match="too large") as caught:
        decode_together(work, index, cores=2, on_progress=lambda _done, _total: None)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.usefixtures("helpers_at_once")
def test_one_process_decodes_alone_if_files_cannot_be_locked(make_work, files, monkeypatch):
    content = files(train=100)
    mine, index = make_work(content, "mine")
    levels = decode_together(mine, index, cores=1, on_progress=lambda _done, _total: None)

    def refuse(_descriptor, _operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(together.subprocess, "Popen", None)
    alone, _ = make_work(content, "alone")
    of_one = decode_together(alone, index, cores=4, on_progress=lambda _done, _total: None)
    assert np.array_equal(of_one, levels)
    assert np.array_equal(images_of(alone), images_of(mine))


def test_progress_is_reported_within_a_block(make_work, files, monkeypatch):
    monkeypatch.setattr(together, "TELL_SECONDS", 0.0)
    work, index = make_work(files(train=25))
    told = []
    decode_together(work, index, cores=1, on_progress=lambda *progress: told.append(progress))
    num_rows = len(index.splits["train"]) + len(index.splits["test"])
    assert told.count((0, num_rows)) > num_rows / 2
    assert told[-1] == (num_rows, num_rows)


def test_a_small_set_is_decoded_before_helpers_would_have_started(make_work, files, monkeypatch):
    monkeypatch.setattr(together, "ROWS_A_HELPER", 20)
    monkeypatch.setattr(together, "TELL_SECONDS", 0.0)
    monkeypatch.setattr(together, "HELPER_SECONDS", 3600.0)
    monkeypatch.setattr(together.subprocess, "Popen", None)
    work, index = make_work(files(train=25))
    decode_together(work, index, cores=4, on_progress=lambda _done, _total: None)
    assert images_of(work).any()


@pytest.mark.usefixtures("helpers_at_once")
def test_helpers_stop_when_decoding_is_interrupted(make_work, files, monkeypatch):
    work, index = make_work(files(train=100))
    started = []
    start = together.subprocess.Popen

    def remember(command, **options):
        started.append(start(command, **options))
        return started[-1]

    def break_off(_done, _total):
        raise KeyboardInterrupt

    monkeypatch.setattr(together.subprocess, "Popen", remember)
    with pytest.raises(KeyboardInterrupt):
        decode_together(work, index, cores=4, on_progress=break_off)
    assert len(started) == 3
    assert not any(Path(f"/proc/{helper.pid}").exists() for helper in started)
