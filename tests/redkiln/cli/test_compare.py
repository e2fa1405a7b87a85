from tests.redkiln.fake_service import dataset

OTHER = "job_1123456789abcdefghijkl"


def test_jobs_are_compared_side_by_side(redkiln, fake):
    fake.job_names[OTHER] = "trees"
    done = redkiln("compare", "flowers", "trees")
    assert done.code == 0
    assert ("flowers" in done.out, "trees" in done.out) == (True, True)
    assert "Their specs are equal." in done.err
    compared = redkiln("compare", "flowers", "trees", "--json").json
    assert compared["jobs"] == ["job_0123456789abcdefghijkl", OTHER]
    assert len(next(iter(compared["metrics"].values()))) == 2


def test_overlapping_intervals_do_not_show_which_job_is_better(redkiln, fake):
    fake.job_names[OTHER] = "trees"
    (name,) = (one for one in fake.results if one.endswith("_onnx"))
    assert "95 % interval" not in redkiln("compare", "flowers", "trees").out
    fake.intervals = {name: (0.552, 0.953)}
    done = redkiln("compare", "flowers", "trees")
    (line,) = (one for one in done.out.splitlines() if "95 % interval" in one)
    assert line.split("interval")[1].count("55.2 % to 95.3 %") == 2
    said = " ".join(done.err.split())
    assert f"The 95 % intervals of {name} of flowers and trees overlap" in said
    assert redkiln("compare", "flowers", "trees", "--json").json["intervals"] == {
        name: [[0.552, 0.953]] * 2
    }


def test_the_sha256_of_a_scripts_code_is_shortened(redkiln, fake):
    fake.job_names[OTHER] = "trees"
    fake.job_specs = {OTHER: {"script": {"bundle": "0123456789abcdef" * 4}}}
    shown = redkiln("compare", "flowers", "trees").out
    assert "0123456789ab" in shown
    assert "0123456789abc" not in shown


def test_one_job_is_not_enough(redkiln):
    done = redkiln("compare", "flowers")
    assert (done.code, "Give at least two jobs" in done.err) == (2, True)


def test_folds_are_compared_by_mean_and_deviation(redkiln, fake):
    fake.job_names[OTHER] = "trees"
    fake.folds = [{"accuracy": 0.8}, {"accuracy": 0.9}]
    shown = redkiln("compare", "flowers", "trees").out.splitlines()[-1]
    assert shown.split() == ["folds", "accuracy", *("0.85", "±", "0.071") * 2]
    (spreads,) = redkiln("compare", "flowers", "trees", "--json").json["folds"].values()
    assert [round(mean, 2) for mean, _ in spreads] == [0.85, 0.85]


def test_jobs_that_were_tested_on_different_data_are_not_ranked(redkiln, fake):
    fake.job_names[OTHER] = "trees"
    fake.job_datasets[OTHER] = "ds_2"
    one = dataset("flowers", id="ds_1", sha256="a" * 64)
    fake.datasets = {"ds_1": one, "ds_2": {**one, "id": "ds_2", "sha256": "b" * 64}}
    done = redkiln("compare", "flowers", "trees")
    shown = " ".join(done.err.split())
    assert "tested on different data (flowers ds_1, flowers ds_2)" in shown
    assert "not ranked" in shown
    fake.datasets["ds_2"]["name"] = "trees"
    shown = " ".join(redkiln("compare", "flowers", "trees").err.split())
    assert "different data (flowers, trees)" in shown
    # The same content under another id has the same test split.
    fake.datasets["ds_2"]["sha256"] = "a" * 64
    assert "different data" not in redkiln("compare", "flowers", "trees").err
