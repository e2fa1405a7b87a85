import itertools

import pytest

from service.attempts.previews import MAX_BYTES, MOST_EARLIER, PNG_MAGIC, preview_path

PNG = PNG_MAGIC + b"first"
NEWER = PNG_MAGIC + b"second"


def put(attempt, content, *, step=3, media_type="image/png"):
    return attempt.client.put(
        f"/v1/attempts/{attempt.id}/preview",
        params={"step": step, "media_type": media_type},
        content=content,
        headers={**attempt.headers, "Content-Type": "application/octet-stream"},
    )


@pytest.fixture
def attempt(submit, worker):
    submit()
    return worker.claim()


def test_the_newest_preview_of_a_running_job_is_served(client, attempt):
    path = f"/v1/jobs/{attempt.job_id}/preview"
    missing = client.get(path)
    assert (missing.status_code, missing.json()["code"]) == (404, "no_preview")
    assert put(attempt, PNG).status_code == 204
    shown = client.get(path)
    assert (shown.status_code, shown.content) == (200, PNG)
    assert shown.headers["content-type"] == "image/png"
    assert shown.headers["redkiln-step"] == "3"
    assert put(attempt, NEWER, step=9).status_code == 204
    newer = client.get(path)
    assert (newer.content, newer.headers["redkiln-step"]) == (NEWER, "9")
    assert newer.headers["etag"] != shown.headers["etag"]


def test_a_known_preview_is_not_sent_again(client, attempt):
    path = f"/v1/jobs/{attempt.job_id}/preview"
    put(attempt, PNG)
    etag = client.get(path).headers["etag"]
    same = client.get(path, headers={"If-None-Match": etag})
    assert (same.status_code, same.content) == (304, b"")
    put(attempt, NEWER)
    assert client.get(path, headers={"If-None-Match": etag}).status_code == 200
    assert client.get(path, headers={"If-Match": etag}).status_code == 412


def test_a_table_is_a_preview_too(client, attempt):
    table = b"| sample | true |\n|---|---|\n| free entry | spam |\n"
    assert put(attempt, table, media_type="text/markdown").status_code == 204
    shown = client.get(f"/v1/jobs/{attempt.job_id}/preview")
    assert shown.headers["content-type"].startswith("text/markdown")
    assert shown.content == table


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        (PNG, "text/html", 415),
        (b"<html>", "image/png", 415),
        (PNG_MAGIC + bytes(MAX_BYTES), "image/png", 413),
    ],
)
def test_only_small_pictures_and_tables_are_accepted_as_previews(
    client, attempt, content, media_type, status
):
    assert put(attempt, content, media_type=media_type).status_code == status
    assert client.get(f"/v1/jobs/{attempt.job_id}/preview").status_code == 404


def test_a_lost_attempt_cannot_change_the_preview(client, attempt):
    attempt.fail()
    refused = put(attempt, PNG)
    assert (refused.status_code, refused.json()["code"]) == (409, "superseded")


def test_a_preview_is_kept_after_the_end_and_deleted_with_its_job(client, attempt, settings):
    put(attempt, PNG)
    attempt.succeed()
    assert client.get(f"/v1/jobs/{attempt.job_id}/preview").content == PNG
    path = preview_path(settings.previews_dir, attempt.job_id)
    assert path.exists()
    assert client.delete(f"/v1/jobs/{attempt.job_id}").status_code == 204
    assert not path.exists()


def steps_of(client, attempt):
    page = client.get(f"/v1/jobs/{attempt.job_id}/previews").json()
    return [one["step"] for one in page["data"]]


def test_earlier_previews_are_kept_by_step(client, attempt):
    assert steps_of(client, attempt) == []
    for step in (3, 9):
        put(attempt, PNG_MAGIC + b"%d" % step, step=step)
    assert steps_of(client, attempt) == [3, 9]
    path = f"/v1/jobs/{attempt.job_id}/preview"
    for step in (3, 9):
        shown = client.get(path, params={"step": step})
        assert (shown.content, shown.headers["redkiln-step"]) == (
            PNG_MAGIC + b"%d" % step,
            str(step),
        )
    assert client.get(path, params={"step": 4}).status_code == 404


def test_a_restart_voids_the_previews_of_later_steps(client, attempt):
    for step in (3, 9, 12, 9):
        put(attempt, PNG, step=step)
    assert steps_of(client, attempt) == [3, 9]


def test_of_many_previews_the_first_and_some_far_apart_are_kept(client, attempt, settings):
    for step in range(1, 61):
        put(attempt, PNG, step=step)
    steps = steps_of(client, attempt)
    assert (steps[0], steps[-1], len(steps)) == (1, 60, MOST_EARLIER + 1)
    assert max(b - a for a, b in itertools.pairwise(steps)) <= 8
    attempt.succeed()
    client.delete(f"/v1/jobs/{attempt.job_id}")
    assert list(settings.previews_dir.iterdir()) == []
