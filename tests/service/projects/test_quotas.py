import pytest

from service.projects.quotas import RETRY_SECONDS


@pytest.fixture
def limits():
    return {"max_waiting_jobs": 2, "max_stored_bytes": 20}


def test_a_project_has_so_many_waiting_jobs_and_stored_bytes_and_no_more(people):
    cats, dogs, _ = people
    first = [cats.submit() for _ in range(3)]
    assert [answer.status_code for answer in first] == [202, 202, 429]
    refused = first[2]
    assert refused.headers["Retry-After"] == str(RETRY_SECONDS)
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert refused.json()["code"] == "too_many_waiting"
    assert "cancel some" in refused.json()["detail"]
    assert dogs.submit().status_code == 202
    cats.ask("POST", f"/v1/jobs/{first[0].json()['id']}/cancel")
    assert cats.submit().status_code == 202

    assert dogs.push(data=b"a,b\n1,2\n3,4\n").status_code == 202
    too_much = dogs.push(name="more", data=b"a,b\n5,6\n7,8\n")
    assert (too_much.status_code, too_much.json()["code"]) == (429, "storage_quota")
    assert "Retry-After" not in too_much.headers, "waiting frees nothing"
    new = {"name": "more", "sha256": "0" * 64, "size_bytes": 10}
    assert dogs.ask("POST", "/v1/uploads", json=new).json()["code"] == "storage_quota"
    assert cats.push().status_code == 202  # the limit is each project's own
