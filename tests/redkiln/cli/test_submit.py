from pathlib import Path

import pytest


@pytest.fixture
def spec_file(tmp_path):
    path = tmp_path / "flowers.yaml"

    def write(text):
        path.write_text(text)
        return path

    return write


def test_a_spec_file_is_submitted_unchanged(redkiln, fake, spec_file):
    done = redkiln("submit", spec_file("dataset: flowers\ntraining:\n  epochs: 3\n"))
    assert done.code == 0
    assert fake.submitted[0][0] == {"dataset": "flowers", "training": {"epochs": 3}}
    assert "queued flowers as job_" in done.out
    assert "redkiln watch job_" in done.err


def test_json_from_stdin_is_a_spec_too(redkiln, fake):
    assert redkiln("submit", "-", stdin='{"dataset": "flowers"}').code == 0
    assert fake.submitted[0][0] == {"dataset": "flowers"}


def test_set_changes_the_spec(redkiln, fake, spec_file):
    path = spec_file("dataset: flowers\nmodel: resnet18\n")
    redkiln("submit", path, "--set", "training.epochs=3", "--set", "model.options.dropout=1e-1")
    assert fake.submitted[0][0] == {
        "dataset": "flowers",
        "model": {"name": "resnet18", "options": {"dropout": 0.1}},
        "training": {"epochs": 3},
    }


def test_a_mistake_is_reported_in_the_services_words_with_its_line(redkiln, fake, spec_file):
    path = spec_file("dataset: flowers\n\ntraining:\n  epochs: 3\n  sed: 1\n  steps: 0\n")
    done = redkiln("submit", path)
    assert done.code == 2
    assert "Error: The spec is wrong\n" in done.err
    assert "flowers.yaml:5  /training/sed: unknown field 'sed'; did you mean 'seed'?" in done.err
    assert "flowers.yaml:6  /training/steps:" in done.err
    assert fake.submitted == []


def test_a_mistake_in_an_assignment_is_located_there(redkiln, spec_file):
    done = redkiln("submit", spec_file("dataset: a\n"), "--set", "training.seed=abc")
    assert done.code == 2
    assert "--set training.seed=abc  /training/seed:" in done.err


def test_a_missing_field_is_located_at_its_parent_or_nowhere(redkiln, spec_file):
    done = redkiln("submit", spec_file("priority: 1\n"))
    assert done.code == 2
    assert "  /dataset: is required" in done.err


def test_a_file_that_is_not_yaml_is_reported_with_its_line(redkiln, spec_file):
    done = redkiln("submit", spec_file("dataset: flowers\ntraining: [1,\n"))
    assert done.code == 2
    assert "flowers.yaml:3:1: " in done.err


def test_a_missing_file_is_a_usage_error(redkiln):
    done = redkiln("submit", "nothing.yaml")
    assert done.code == 2
    assert "nothing.yaml cannot be read: No such file" in done.err


def test_a_dry_run_prints_a_spec_that_can_be_submitted(redkiln, fake, spec_file):
    done = redkiln("submit", spec_file("dataset: flowers\n"), "--dry-run")
    assert done.code == 0
    assert fake.submitted == []
    Path("full.yaml").write_text(done.out)
    assert redkiln("submit", "full.yaml").code == 0


def test_a_dry_run_estimates_what_the_job_will_take(redkiln, fake, spec_file):
    caveat = "The time is a rough guess: it comes from job_7, which had other data"
    fake.estimates = [
        {"device": "MI210", "seconds": 185.0, "measured_by": "job_7", "caveat": caveat}
    ]
    done = redkiln("submit", spec_file("dataset: flowers\n"), "--dry-run")
    assert f"About 3 min 05 s on MI210, as measured by job_7. {caveat}." in " ".join(
        done.err.split()
    )
    assert "Unknown: memory: it was not measured." in " ".join(done.err.split())


def test_watching_shows_the_job_until_it_ends(redkiln, fake, spec_file):
    fake.is_verified = False
    done = redkiln("submit", spec_file("dataset: flowers\n"), "--watch")
    assert done.code == 5
    assert "UNVERIFIED" in done.out
