"""`redkiln storage` and `redkiln storage retention`."""


def test_the_use_of_storage_is_shown_by_kind(redkiln):
    done = redkiln("storage")
    assert all(word in done.out for word in ("logs", "4.0 kB", "1.0 kB"))
    assert "redkiln delete JOB" in done.out
    assert "DELETE" not in done.out
    assert "2.0 GB of the disk are free" in done.err


def test_a_rule_that_is_off_names_its_setting(redkiln):
    assert "jobs: off; set REDKILN_KEEP_JOBS_DAYS" in redkiln("storage", "retention").out


def test_the_preview_shows_what_other_values_would_delete(redkiln):
    out = redkiln("storage", "retention", "--jobs-days", "90").out
    assert "jobs: after 90 days (REDKILN_KEEP_JOBS_DAYS): 12 jobs, 5.0 kB; 1 job kept" in out
    assert out.count("flowers") == 10
    assert "and 2 other jobs" in out
