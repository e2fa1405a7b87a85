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
