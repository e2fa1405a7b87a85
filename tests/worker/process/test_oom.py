from worker.process.oom import count_oom_kills


def test_oom_kills_are_counted_from_vmstat(tmp_path):
    path = tmp_path / "vmstat"
    path.write_text("nr_free_pages 5\noom_kill 3\n")
    assert count_oom_kills(path) == 3
    path.write_text("nr_free_pages 5\n")
    assert count_oom_kills(path) == 0
