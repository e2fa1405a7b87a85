"""The page is built when it is missing or old, and a failure to build it breaks nothing."""

import pytest

from native import page


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder with the sources of a page, and no npm at all."""
    folder = tmp_path / "page"
    (folder / "src").mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    (folder / "src" / "main.ts").write_text("start()")
    monkeypatch.setattr(page, "PAGE", folder)
    monkeypatch.setattr(page, "find_npm", lambda: None)
    return folder


def leave_stamp(folder):
    (folder / "dist").mkdir()
    (folder / "dist" / page.STAMP).write_text(page.digest_sources())


def test_the_reason_is_returned_if_the_page_cannot_be_built(sources, monkeypatch):
    def fail():
        raise page.CannotBuild("npm is missing")

    monkeypatch.setattr(page, "install_npm", fail)
    assert "npm is missing" in page.ensure_page()


def test_a_current_page_is_not_built_again(sources):
    leave_stamp(sources)
    assert page.ensure_page() is None


def test_a_changed_source_makes_the_page_old(sources):
    leave_stamp(sources)
    (sources / "src" / "main.ts").write_text("start_again()")
    assert not page.is_current()


def test_what_is_installed_or_built_does_not_make_the_page_old(sources):
    leave_stamp(sources)
    (sources / "node_modules").mkdir()
    (sources / "node_modules" / "package.json").write_text("{}")
    assert page.is_current()


def test_an_image_without_sources_builds_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "PAGE", tmp_path)
    assert page.ensure_page() is None


def test_a_failing_npm_shows_its_last_lines(sources):
    npm = page.Npm(("sh", "-c", "echo first; echo the reason; exit 3"), sources)
    with pytest.raises(page.CannotBuild, match="the reason"):
        npm.run("ci")


class NotedNpm(page.Npm):
    """Notes what it would run; `ci` leaves the note that npm itself writes first."""

    runs: list

    def run(self, *arguments):
        self.runs.append(arguments)
        folder = page.PAGE / "node_modules"
        folder.mkdir(exist_ok=True)
        (folder / ".package-lock.json").write_text("{}")
        if self.command == ("breaks",):
            raise page.CannotBuild("interrupted")


def test_packages_are_installed_once_and_again_after_an_interruption(sources, monkeypatch):
    monkeypatch.setattr(NotedNpm, "runs", [], raising=False)
    (sources / "package-lock.json").write_text('{"lockfileVersion": 3}')
    with pytest.raises(page.CannotBuild):
        page.install_packages(NotedNpm(("breaks",), sources))
    npm = NotedNpm(("works",), sources)
    page.install_packages(npm)
    page.install_packages(npm)
    assert NotedNpm.runs == [("ci",), ("ci",)]
    (sources / "package-lock.json").write_text('{"lockfileVersion": 4}')
    page.install_packages(npm)
    assert len(NotedNpm.runs) == 3


def test_types_are_checked_only_where_there_is_an_npm(sources, monkeypatch, capsys):
    assert page.run_check() == 0
    assert "are not checked" in capsys.readouterr().out
    (sources / "package-lock.json").write_text("{}")
    failing = page.Npm(("sh", "-c", '[ "$0" = ci ] || { echo a wrong type; exit 1; }'), sources)
    monkeypatch.setattr(page, "find_npm", lambda: failing)
    assert page.run_check() == 1
    assert "a wrong type" in capsys.readouterr().err


def test_the_lock_file_names_no_registry():
    lock = (page.PAGE / "package-lock.json").read_text()
    assert '"integrity"' in lock
    assert '"resolved"' not in lock
    assert "omit-lockfile-registry-resolved=true" in (page.PAGE / ".npmrc").read_text()
