from functools import partial

from redkiln.cli.command import Session
from redkiln.cli.preview import preview
from redkiln.cli.view.live import progress_words
from redkiln.cli.view.terminal import SafeConsole
from redkiln.cli.view.watched import Watched
from tests.redkiln.cli.view.test_panel import job, progress

PICTURE = ("image/png", 1200, b"\x89PNG picture")
TABLE = ("text/markdown", 30, b"| sample | true |\n|---|---|\n| free entry | spam |\n")


def test_a_picture_becomes_a_file_named_by_the_job(redkiln, fake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fake.preview = PICTURE
    done = redkiln("preview", "flowers")
    assert (done.code, done.out) == (
        0,
        "sample predictions at step 1,200: flowers-preview.png\n",
    )
    assert (tmp_path / "flowers-preview.png").read_bytes() == PICTURE[2]


def test_a_file_can_be_named(redkiln, fake, tmp_path):
    fake.preview = PICTURE
    done = redkiln("preview", "flowers", "-o", tmp_path / "new" / "x.png", "--json")
    assert done.json["path"] == str(tmp_path / "new" / "x.png")
    assert done.json["step"] == 1200
    assert (tmp_path / "new" / "x.png").read_bytes() == PICTURE[2]


def test_a_table_is_printed(redkiln, fake, tmp_path):
    fake.preview = TABLE
    done = redkiln("preview", "flowers")
    assert done.out.encode() == TABLE[2]
    assert redkiln("preview", "flowers", "--json").json["text"].encode() == TABLE[2]
    redkiln("preview", "flowers", "-o", tmp_path / "t.md")
    assert (tmp_path / "t.md").read_bytes() == TABLE[2]


def test_a_table_is_drawn_in_a_terminal(fake, monkeypatch, capsys):
    monkeypatch.setattr(
        "redkiln.cli.command.SafeConsole", partial(SafeConsole, force_terminal=True)
    )
    fake.preview = TABLE
    session = Session(url=fake.url, key=None, is_json=False)
    preview(session, "flowers")
    session.close()
    assert "---" not in capsys.readouterr().out


def test_a_job_without_previews_says_so(redkiln):
    done = redkiln("preview", "flowers")
    assert done.code != 0
    assert "no sample predictions yet" in done.err


def test_lines_say_when_steps_wait_for_their_batches():
    state = Watched(job(progress=progress(data_wait_ratio=0.31)))
    assert "waits for data 31 %" in progress_words(state)
    state = Watched(job(progress=progress(data_wait_ratio=0.01)))
    assert "waits" not in progress_words(state)
