"""`redkiln cancel --all` and `redkiln delete --all`."""

import pytest

FILTERS = ("--all", "--status", "failed", "--status", "queued", "-m", "team=blue")
SENT = [("status", "failed"), ("status", "queued"), ("metadata.team", "blue")]


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr("redkiln.cli.arguments.confirm._is_at_terminal", lambda: True)


@pytest.mark.parametrize(("command", "method"), [("cancel", "POST"), ("delete", "DELETE")])
def test_all_selected_jobs_are_changed_page_by_page(redkiln, fake, command, method):
    done = redkiln(command, *FILTERS)
    assert done.code == 0
    assert "flowers" in done.out
    assert "kept (job_2) was not changed: it runs" in done.err
    assert [asked for asked, _ in fake.steered] == [method] * 4
    queries = [sorted(query) for _, query in fake.steered]
    assert queries[0] == sorted([*SENT, ("dry_run", "true")])
    assert queries[2] == sorted(SENT)
    assert ("after", fake.view()["id"]) in queries[3]


def test_a_dry_run_changes_nothing(redkiln, fake):
    answer = redkiln("delete", *FILTERS, "--dry-run", "--json").json
    assert (answer["dry_run"], len(answer["done"]), len(answer["refused"])) == (True, 1, 1)
    assert all(("dry_run", "true") in query for _, query in fake.steered)


@pytest.mark.parametrize(("reply", "is_changed"), [("n\n", False), ("y\n", True)])
def test_a_person_at_a_terminal_is_asked_first(redkiln, fake, terminal, reply, is_changed):
    fake.status = "running"
    done = redkiln("cancel", *FILTERS, stdin=reply)
    assert "Cancel flowers" in done.err
    # Only what the question named is changed, by its id: the filters may select others by then.
    assert all(("dry_run", "true") in query for _, query in fake.steered)
    assert (fake.status == "cancelled") == is_changed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cancel", "--all"), "filter would be every job"),
        (("delete", "last", *FILTERS), "not both"),
        (("delete", "last", "--dry-run"), "need --all"),
        (("cancel", "--status", "queued"), "need --all"),
        (("cancel",), "name a job"),
        (("delete", "--all", "-m", "team"), "is not key=value"),
    ],
)
def test_a_command_that_is_not_clear_changes_nothing(redkiln, fake, arguments, words):
    done = redkiln(*arguments)
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert fake.steered == []
