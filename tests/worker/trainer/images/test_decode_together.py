import signal
import zipfile
from pathlib import Path

import numpy as np
import pytest

from worker.trainer.failed import TrainingFailed
from worker.trainer.images import decode_together as together
from worker.trainer.images.decode_blocks import Outcome, Work
from worker.trainer.images.decode_together import decode_together, num_helpers
from worker.trainer.images.decoded_facts import count_levels, no_levels
from worker.trainer.images.pixels import PixelFormat

FORMAT = PixelFormat(size=12, channels=3, resize="stretch")


@pytest.fixture
def make_work(tmp_path, make_index):
    """Makes what `decode_together` wants of a set's files, in a folder of its own."""

    def make(files, name="work"):
        folder = tmp_path / name
        folder.mkdir()
        with zipfile.ZipFile(folder / "data.zip", "w") as archive:
            for member, content in files.items():
                archive.writestr(member, content)
        index = make_index(files)
        (folder / "index.json").write_text(index.model_dump_json())
        (folder / "images").write_bytes(bytes(len(files) * FORMAT.num_bytes))
        work = Work(
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
def helpers_alone(monkeypatch):
    """Helpers pay, and have all of the work to do."""

    def leave_it_all(_work, _index, _queue, *, on_block):
        on_block()
        return Outcome(levels=no_levels(FORMAT).tolist())

    monkeypatch.setattr(together, "ROWS_A_HELPER", 20)
    monkeypatch.setattr(together, "decode_blocks", leave_it_all)


def images_of(work):
    return np.fromfile(work.images_path, dtype=np.uint8).reshape(-1, *FORMAT.shape)


@pytest.mark.parametrize(
    ("num_rows", "cores", "expected"), [(999, 8, 0), (1000, 8, 1), (5000, 1, 0), (10**6, 16, 15)]
)
def test_helpers_are_started_where_they_pay(num_rows, cores, expected):
    assert num_helpers(num_rows, cores=cores) == expected


def test_helpers_decode_what_this_process_would(make_work, files, request):
    content = files(train=100)
    mine, index = make_work(content, "mine")
    levels = decode_together(mine, index, cores=1, on_progress=lambda _done, _total: None)
    assert np.array_equal(levels, count_levels(images_of(mine)[: len(index.splits["train"])]))
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
def test_the_first_of_several_bad_samples_is_named(make_work, files):
    content = files(train=100)
    names = sorted(name for name in content if name.startswith("train"))
    bad = {names[10]: b"", names[250]: b""}
    work, index = make_work(content | bad)
    with pytest.raises(TrainingFailed, match=names[10]):
        decode_together(work, index, cores=3, on_progress=lambda _done, _total: None)


@pytest.mark.usefixtures("helpers_alone")
def test_a_helper_that_dies_ends_the_decoding(make_work, files, monkeypatch):
    work, index = make_work(files())
    start = together.subprocess.Popen

    def start_and_kill(command, **options):
        helper = start(command, **options)
        helper.send_signal(signal.SIGSTOP)
        helper.kill()
        return helper

    monkeypatch.setattr(together.subprocess, "Popen", start_and_kill)
    with pytest.raises(RuntimeError, match="ended with status -9"):
        decode_together(work, index, cores=2, on_progress=lambda _done, _total: None)


def test_helpers_end_with_a_decoding_that_is_broken_off(make_work, files, monkeypatch):
    monkeypatch.setattr(together, "ROWS_A_HELPER", 20)
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
