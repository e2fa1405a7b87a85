"""The live view, with a stand-in for IPython, which the tests do not install."""

import sys
from types import SimpleNamespace

import pytest

from redkiln.errors import RedkilnError
from redkiln.notebook.live import show_live
from tests.redkiln.fake_service import JOB_ID


@pytest.fixture
def shown(monkeypatch):
    """What a notebook shows, one after the other."""
    found = []

    def display(html, *, display_id):
        assert display_id
        found.append(html)
        return SimpleNamespace(update=found.append)

    module = SimpleNamespace(display=display, HTML=lambda text: text)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return found


def test_a_view_changes_at_most_once_a_second_and_at_the_end(shown):
    times = iter([0.0, 0.4, 1.1, 1.1, 1.5, 2.2, 2.2])
    renders = iter("abcdefg")
    show_live(lambda: next(renders), range(4), clock=lambda: next(times))
    assert shown == ["a", "b", "c", "d"]


def test_the_client_shows_a_job_until_it_has_ended(client, fake, shown):
    view = client.live(JOB_ID)
    assert view.is_terminal
    assert JOB_ID in shown[-1]
    assert "train/loss" in shown[-1]


def test_without_ipython_the_error_says_what_to_do(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(RedkilnError, match="Call it in a notebook"):
        client.live(JOB_ID)
