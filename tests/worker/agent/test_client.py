import httpx
import pytest

from redkiln.protocol import ClaimRequest, ClaimResponse, HelloRequest, ReportRequest
from worker.agent.client import (
    MAX_EQUAL_FAULTS,
    ProtocolMismatch,
    Refused,
    SequenceGap,
    ServiceAway,
    ServiceClient,
    Superseded,
)

HELLO = HelloRequest(
    worker_id="wrk_12345678", boot_id="b", protocol=1, version="1", hostname="h", slots=1
)
CLAIM = ClaimRequest(claim_id="c", worker_id="wrk_12345678", boot_id="b", devices=["cpu"])


def client_of(*answers, keys=("rk_1",)):
    seen = []
    left = list(answers)
    keys = list(keys)

    def handle(request):
        request.read()
        seen.append(request)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = ServiceClient(
        "http://service",
        load_key=lambda: keys.pop(0) if len(keys) > 1 else keys[0],
        transport=httpx.MockTransport(handle),
    )
    client.seen = seen
    return client


def attempt_of(client):
    return client.attempt(
        ClaimResponse(
            attempt_id="att_1",
            job_id="job_1",
            job_name="n",
            number=1,
            fence=1,
            token="t",
            spec={},
            dataset={"id": "d", "name": "d", "kind": "builtin"},
            lease_seconds=1,
            report_seconds=1,
        )
    )


def problem(status, code="x", **extra):
    return httpx.Response(status, json={"code": code, "detail": "words", **extra})


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.ConnectError("refused"), ServiceAway),
        (httpx.ReadTimeout("slow"), ServiceAway),
        (problem(429), ServiceAway),
        (problem(500), ServiceAway),
        (problem(503), ServiceAway),
        (problem(507), ServiceAway),
        (httpx.Response(200, text="<html>a proxy's</html>"), ServiceAway),
        (problem(409, "superseded"), Superseded),
        (problem(410), Superseded),
        (problem(401), Superseded),
        (problem(404), Superseded),
        (problem(409, "sequence_gap", expected_seq=7), SequenceGap),
        (problem(426), ProtocolMismatch),
        (problem(422), Refused),
        (problem(409, "already_finished"), Refused),
        (httpx.Response(400, text="not json"), Refused),
    ],
)
def test_each_answer_to_an_attempt_maps_to_its_error(answer, error):
    attempt = attempt_of(client_of(answer))
    with pytest.raises(error) as caught:
        attempt.report(ReportRequest(first_seq=1))
    if error is SequenceGap:
        assert caught.value.expected_seq == 7


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(401), Refused),
        (problem(409, "superseded"), Superseded),
        (problem(426), ProtocolMismatch),
        (problem(503), ServiceAway),
    ],
)
def test_each_answer_to_a_worker_maps_to_its_error(answer, error):
    with pytest.raises(error):
        client_of(answer).claim(CLAIM)


def report_times(attempt, times):
    for _ in range(times):
        with pytest.raises(ServiceAway):
            attempt.report(ReportRequest(first_seq=1))


def test_an_attempt_gives_up_a_call_after_many_equal_internal_errors():
    attempt = attempt_of(client_of(*[problem(500, "internal")] * MAX_EQUAL_FAULTS))
    report_times(attempt, MAX_EQUAL_FAULTS - 1)
    with pytest.raises(Refused, match="failed 20 times in the same way: words"):
        attempt.report(ReportRequest(first_seq=1))


def test_another_answer_between_internal_errors_starts_the_count_again():
    half = [problem(500, "internal")] * (MAX_EQUAL_FAULTS - 1)
    attempt = attempt_of(client_of(*half, problem(503), *half))
    report_times(attempt, 2 * len(half) + 1)


def test_a_claim_without_a_job_returns_none():
    assert client_of(httpx.Response(204)).claim(CLAIM) is None


def test_a_refused_key_is_read_again_from_its_file():
    client = client_of(
        problem(401), httpx.Response(200, json={"poll_seconds": 1}), keys=("rk_old", "rk_new")
    )
    with pytest.raises(Refused):
        client.hello(HELLO)
    client.hello(HELLO)
    sent = [request.headers["Authorization"] for request in client.seen]
    assert sent == ["Bearer rk_old", "Bearer rk_new"]


def test_a_missing_key_file_counts_as_an_unreachable_service():
    client = client_of(keys=(None,))
    with pytest.raises(ServiceAway, match="key"):
        client.hello(HELLO)


def test_an_attempt_sends_its_token_and_no_other_credential():
    client = client_of(problem(404), httpx.Response(201))
    attempt = attempt_of(client)
    assert attempt.has_blob("0" * 64) is False
    attempt.put_blob("0" * 64, b"x")
    assert {request.headers["Authorization"] for request in client.seen} == {"Bearer t"}


def test_a_file_is_uploaded_with_its_length(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 200_000)
    client = client_of(httpx.Response(201))
    with path.open("rb") as file:
        attempt_of(client).put_blob("0" * 64, file)
    (request,) = client.seen
    assert request.headers["Content-Length"] == "200000"
    assert len(request.content) == 200_000


def test_a_missing_data_set_does_not_supersede_the_attempt():
    attempt = attempt_of(client_of(problem(404)))
    with pytest.raises(Refused), attempt.open_dataset():
        pass
