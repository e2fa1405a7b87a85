import pytest

MISSING = "job_" + "0" * 22


def names(response):
    assert response.status_code == 200, response.text
    return [job["name"] for job in response.json()["data"]]


@pytest.fixture
def listed(client):
    return lambda query="": names(client.get(f"/v1/jobs?{query}"))


@pytest.fixture
def ended(submit, worker):
    """End jobs in this order, each with its test accuracy."""

    def ended(**accuracies):
        for name, accuracy in accuracies.items():
            submit(name=name)
            attempt = worker.claim()
            attempt.report(("result", {"metrics": {"test/accuracy": accuracy}}))
            attempt.succeed()

    return ended


class TestSearch:
    @pytest.fixture(autouse=True)
    def jobs(self, submit, client):
        submit(name="Cats small", model="resnet18")
        submit(name="cats large", model="resnet50")
        job = submit(name="100_ dogs", dataset="builtin:iris")
        client.post(f"/v1/jobs/{job['id']}/cancel")
        self.dogs_id = job["id"]

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("cats", ["cats large", "Cats small"]),
            ("CATS resnet50", ["cats large"]),
            ("iris", ["100_ dogs"]),
            ("builtin:digits", ["cats large", "Cats small"]),
            ("tabular", ["100_ dogs"]),
            ("cancelled", ["100_ dogs"]),
            ("queued", ["cats large", "Cats small"]),
            ("100_", ["100_ dogs"]),
            ("c_ts", []),
            ("birds", []),
            ("", ["100_ dogs", "cats large", "Cats small"]),
        ],
    )
    def test_every_word_must_be_found(self, listed, words, expected):
        assert listed(f"q={words}") == expected

    def test_a_job_is_found_by_a_part_of_its_id(self, listed):
        assert listed(f"q={self.dogs_id[10:]}") == ["100_ dogs"]

    def test_jobs_are_filtered_by_data_set(self, client, listed):
        iris = client.get("/v1/datasets/builtin:iris").json()["id"]
        assert listed(f"dataset={iris}") == ["100_ dogs"]

    def test_a_list_shows_data_set_and_model(self, client):
        dogs, cats, _ = client.get("/v1/jobs").json()["data"]
        assert (cats["dataset_name"], cats["model"]) == ("builtin:digits", "resnet50")
        assert (dogs["dataset_name"], dogs["model"]) == ("builtin:iris", dogs["model"])

    def test_the_model_that_the_worker_chose_is_found(self, worker, listed, client):
        attempt = worker.claim()
        spec = {**attempt.claimed["spec"], "model": {"name": "efficientnet"}}
        attempt.report(("resolved", {"spec": spec, "environment": {}}))
        assert listed("q=efficientnet") == ["Cats small"]


class TestSort:
    def test_by_name_without_case(self, submit, listed):
        for name in ("b", "C", "a", "B2"):
            submit(name=name)
        assert listed("sort=name") == ["a", "b", "B2", "C"]
        assert listed("sort=-name") == ["C", "B2", "b", "a"]

    def test_by_a_result_lists_only_jobs_that_have_it(self, submit, ended, listed):
        ended(low=0.5, high=0.9, middle=0.7)
        submit(name="waiting")
        assert listed("sort=-test/accuracy") == ["high", "middle", "low"]
        assert listed("sort=test/accuracy") == ["low", "middle", "high"]
        assert listed("sort=test/f1") == []

    def test_by_end_lists_only_jobs_that_have_ended(self, submit, client, listed):
        ids = {name: submit(name=name)["id"] for name in ("first", "second", "third")}
        for name in ("third", "first"):
            client.post(f"/v1/jobs/{ids[name]}/cancel")
        assert listed("sort=ended") == ["third", "first"]
        assert listed("sort=-ended") == ["first", "third"]

    def test_by_priority_and_by_creation(self, submit, listed):
        for name, priority in (("a", 1), ("b", 5), ("c", 1)):
            submit(name=name, priority=priority)
        assert listed("sort=-priority") == ["b", "c", "a"]
        assert listed("sort=created") == ["a", "b", "c"]

    @pytest.mark.parametrize(
        "sort", ["created", "-created", "name", "-name", "priority", "-priority", "queue",
                 "ended", "-ended", "test/accuracy", "-test/accuracy"],
    )  # fmt: skip
    def test_pages_continue_where_the_last_one_ended(self, client, ended, submit, listed, sort):
        ended(d=0.5, a=0.5, c=0.25, b=0.75)
        for name in ("x", "Y", "z"):
            submit(name=name, priority=3)
        found, after = [], ""
        while True:
            page = client.get(f"/v1/jobs?sort={sort}&limit=2{after}").json()
            found += [job["name"] for job in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert found == listed(f"sort={sort}")
        assert len(found) == len(set(found)) >= 3

    def test_filters_and_sorts_combine(self, ended, submit, listed):
        ended(zebu=0.5, dog=0.9, zebra=0.7)
        submit(name="zeb")
        assert listed("q=zeb&sort=-test/accuracy&status=succeeded") == ["zebra", "zebu"]
        assert listed("q=zeb&sort=-name") == ["zebu", "zebra", "zeb"]

    def test_a_retried_job_loses_its_result(self, client, submit, worker, listed):
        submit(name="again", retry={"failures": 0})
        attempt = worker.claim()
        attempt.report(("result", {"metrics": {"test/accuracy": 0.5}}))
        attempt.fail()
        assert listed("sort=test/accuracy") == ["again"]
        (job,) = client.get("/v1/jobs").json()["data"]
        client.post(f"/v1/jobs/{job['id']}/retry")
        assert listed("sort=test/accuracy") == []

    def test_a_deleted_job_is_not_sorted(self, client, ended, listed):
        ended(gone=0.5)
        (job,) = client.get("/v1/jobs").json()["data"]
        client.delete(f"/v1/jobs/{job['id']}")
        assert listed("sort=test/accuracy") == []

    def test_an_unknown_sort_names_the_nearest(self, client, submit):
        submit()
        response = client.get("/v1/jobs?sort=-craeted")
        assert (response.status_code, response.json()["errors"][0]["code"]) == (422, "unknown_sort")
        assert "did you mean 'created'" in response.json()["detail"]

    @pytest.mark.parametrize("sort", ["name", "ended", "queue", "test/accuracy"])
    def test_a_lost_place_is_refused(self, client, sort):
        response = client.get(f"/v1/jobs?sort={sort}&after={MISSING}")
        assert (response.status_code, response.json()["errors"][0]["code"]) == (422, "lost_place")
