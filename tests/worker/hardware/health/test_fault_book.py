from datetime import UTC, datetime

from worker.hardware.health.fault_book import NAME, FaultBook, SeenFault

FAULT = SeenFault(at=datetime(2026, 1, 1, tzinfo=UTC), attempt_id="att_1", text="OSError: x")


def test_each_part_has_its_newest_fault_until_it_works_again(tmp_path):
    book = FaultBook(tmp_path)
    newer = FAULT.model_copy(update={"attempt_id": "att_2"})
    book.add("MLflow", FAULT)
    book.add("TensorBoard", FAULT)
    book.add("MLflow", newer)
    assert FaultBook(tmp_path).load() == {"MLflow": newer, "TensorBoard": FAULT}
    book.clear(["MLflow", "the worker"])
    assert book.load() == {"TensorBoard": FAULT}


def test_a_missing_or_damaged_file_has_no_faults(tmp_path):
    assert FaultBook(tmp_path).load() == {}
    (tmp_path / NAME).write_bytes(b"\xff{")
    assert FaultBook(tmp_path).load() == {}
    FaultBook(tmp_path).clear(["MLflow"])
    assert (tmp_path / NAME).read_bytes() == b"\xff{"
