from datetime import UTC, datetime

from worker.hardware.health.death_book import MAX_DEATHS, MAX_TAIL, NAME, DeathBook, SeenDeath


def death(number, **changes):
    told = {"at": datetime(2026, 5, 1, tzinfo=UTC), "attempt_id": f"att_{number}", "status": -6}
    return SeenDeath(**told | changes)


def test_deaths_are_read_back_in_order(tmp_path):
    book = DeathBook(tmp_path)
    assert book.load() == []
    book.add(death(1, row=9, cause="memory_fault"))
    book.add(death(2))
    assert DeathBook(tmp_path).load() == [death(1, row=9, cause="memory_fault"), death(2)]


def test_old_deaths_and_long_output_are_cut(tmp_path):
    book = DeathBook(tmp_path)
    for number in range(MAX_DEATHS + 3):
        book.add(death(number, tail="x" * (MAX_TAIL + 1)))
    kept = book.load()
    assert [item.attempt_id for item in kept[:1]] == ["att_3"]
    assert len(kept) == MAX_DEATHS
    assert len(kept[-1].tail) == MAX_TAIL


def test_only_the_damaged_line_is_lost(tmp_path):
    book = DeathBook(tmp_path)
    book.add(death(1))
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"at": \xff\n')
    book.add(death(2))
    assert [item.attempt_id for item in book.load()] == ["att_1", "att_2"]
