from dataclasses import replace

from tests.worker.hardware.doctor.made_machine import AT, CACHE, HEALTHY
from worker.hardware.doctor.cures.book import CureBook, Tried, remember
from worker.hardware.doctor.cures.carry_out import carry_out
from worker.hardware.doctor.cures.cures import Cure
from worker.hardware.doctor.evidence import KernelDatabase
from worker.hardware.doctor.examine import examine

BROKEN = replace(
    HEALTHY, caches=(replace(CACHE, databases=(KernelDatabase("/c/a.ukdb", "malformed"),)),)
)
TRIED = Tried(at=AT, row=14, cure="delete it", command="rm /c/a.ukdb")


def cure(apply=lambda: None):
    return Cure(14, "delete it", "rm /c/a.ukdb", apply)


def fail():
    raise OSError("read-only file system")


def test_a_cure_is_remembered_once_a_diagnosis_confirms_it(tmp_path):
    book, broken = CureBook(tmp_path / "worker"), examine(BROKEN)
    done = carry_out([cure()], book=book, ask=lambda _: True, say=print)
    assert [each.row for each in done] == [14]
    assert book.confirm(broken) == []
    assert remember(broken.first, book.load()) == ""
    assert [entry.row for entry in book.confirm(examine(HEALTHY))] == [14]
    assert remember(broken.first, book.load()) == "rm /c/a.ukdb"
    assert book.confirm(examine(HEALTHY)) == []


def test_a_cure_of_another_row_is_not_remembered():
    other = TRIED.model_copy(update={"row": 4, "has_cured": True})
    assert remember(examine(BROKEN).first, [other]) == ""
    assert remember(None, [TRIED]) == ""


def test_nothing_is_done_without_a_yes(tmp_path):
    book = CureBook(tmp_path)
    assert carry_out([cure(fail)], book=book, ask=lambda _: False, say=print) == []
    assert book.load() == []


def test_a_cure_that_fails_is_reported_and_not_recorded(tmp_path):
    said = []
    book = CureBook(tmp_path)
    assert carry_out([cure(fail)], book=book, ask=lambda _: True, say=said.append) == []
    assert "read-only" in said[0]
    assert "rm /c/a.ukdb" in said[0]
    assert book.load() == []


def test_a_damaged_book_is_empty(tmp_path):
    (tmp_path / "cures.json").write_text("{")
    assert CureBook(tmp_path).load() == []
    CureBook(tmp_path).add(TRIED)
    assert CureBook(tmp_path).load() == [TRIED]
