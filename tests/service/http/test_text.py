"""Texts that PostgreSQL cannot store."""

import json
import math

import pytest

from service.http.text import clean, find_forbidden

JSON = {"Content-Type": "application/json"}


def post(client, path, body, **headers):
    return client.post(path, content=body, headers={**JSON, **headers})


@pytest.mark.parametrize(
    ("body", "pointer", "kind"),
    [
        (r'{"dataset": "builtin:digits", "metadata": {"k": "a\u0000b"}}', "/metadata/k", "NUL"),
        (r'{"dataset": "builtin:digits", "metadata": {"k": "\ud800"}}', "/metadata/k", "surrogate"),
        (r'{"dataset": "a\udc00"}', "/dataset", "surrogate"),
        (r'{"dataset": "a", "x\u0000": 1}', "/x�", "NUL"),
    ],
)
def test_the_error_says_where_the_text_is(client, body, pointer, kind):
    response = post(client, "/v1/jobs", body)
    assert response.status_code == 422
    problem = response.json()
    assert problem["code"] == "forbidden_character"
    (entry,) = problem["errors"]
    assert entry["pointer"] == pointer
    assert kind in entry["message"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_a_body_in_another_encoding_is_refused(client, encoding):
    body = r'{"dataset": "builtin:digits", "metadata": {"k": "a\u0000b"}}'.encode(encoding)
    response = post(client, "/v1/jobs", body)
    assert (response.status_code, response.json()["code"]) == (400, "malformed_json")
    assert "send it as UTF-8" in response.json()["detail"]


@pytest.mark.parametrize("media_type", ["application/x+json", "Application/JSON; charset=latin1"])
def test_every_type_that_is_parsed_as_json_is_checked(client, media_type):
    body = r'{"dataset": "builtin:digits", "metadata": {"k": "a\u0000b"}}'
    response = client.post("/v1/jobs", content=body, headers={"Content-Type": media_type})
    assert (response.status_code, response.json()["code"]) == (422, "forbidden_character")


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "9" * 400 + ".0"])
def test_numbers_that_are_not_finite_are_refused_with_their_place(client, number):
    body = f'{{"dataset": "builtin:digits", "metadata": {{"k": {number}}}}}'
    response = post(client, "/v1/jobs", body)
    assert (response.status_code, response.json()["code"]) == (422, "not_finite")
    assert response.json()["errors"][0]["pointer"] == "/metadata/k"


@pytest.mark.parametrize("text", [r"\ud83d\ude00", "😀", r"\\u0000", r"\u00e9"])
def test_other_escapes_are_accepted(client, text):
    body = f'{{"dataset": "builtin:digits", "metadata": {{"k": "{text}"}}}}'
    assert post(client, "/v1/jobs", body).status_code == 202


def test_a_malformed_body_with_such_an_escape_is_reported_as_malformed(client):
    response = post(client, "/v1/jobs", r'{"a": "\u0000"')
    assert (response.status_code, response.json()["code"]) == (400, "malformed_json")


def test_a_string_without_its_end_is_reported_in_a_sentence(client):
    detail = post(client, "/v1/jobs", '{"dataset": "x').json()["detail"]
    assert detail == "the body is not JSON: unterminated string starting at line 1, column 13"


def test_a_body_above_the_limit_is_still_refused_as_too_large(client):
    response = post(client, "/v1/jobs", b'{"a": "' + b"a" * 2_000_000 + b'"}')
    assert response.status_code == 413


def test_what_a_worker_reports_is_repaired(submit, worker, client):
    job_id = submit()["id"]
    attempt = worker.claim()
    event = {"at": "2026-01-01T00:00:00Z", "kind": "message", "data": {"text": "a\0b \ud800 😀"}}
    body = json.dumps({"first_seq": 1, "events": [event]})
    path = f"/v1/attempts/{attempt.id}/report"
    assert post(client, path, body, **attempt.headers).status_code == 200
    events = client.get(f"/v1/jobs/{job_id}/events").json()["data"]
    (text,) = [event["data"]["text"] for event in events if event["kind"] == "message"]
    assert text == "a�b � 😀"


def test_a_worker_may_report_that_its_numbers_overflowed(submit, worker, client):
    job_id = submit()["id"]
    attempt = worker.claim()
    at = "2026-01-01T00:00:00Z"
    progress = {"at": at, "kind": "progress", "data": {"step": 3, "metrics": {"a": math.nan}}}
    result = {"at": at, "kind": "result", "data": {"metrics": {"a": math.inf}}}
    body = json.dumps({"first_seq": 1, "events": [progress, result]})
    answer = post(client, f"/v1/attempts/{attempt.id}/report", body, **attempt.headers)
    assert answer.status_code == 200
    shown = client.get(f"/v1/jobs/{job_id}").json()
    assert (shown["progress"]["step"], shown["progress"]["metrics"]) == (3, {})


def test_problems_are_listed_in_the_order_of_the_document_and_bounded():
    value = {"b": ["\0", {"a/b": "x\0"}], "a": ["\0"] * 100}
    problems = find_forbidden(value)
    assert [problem.pointer for problem in problems[:3]] == ["/b/0", "/b/1/a~1b", "/a/0"]
    assert "position 1" in problems[1].message
    assert len(problems) == 20


def test_cleaning_keeps_everything_else():
    assert clean({"a\0": [1, None, "x", {"y": "\ud800"}]}) == {"a�": [1, None, "x", {"y": "�"}]}
