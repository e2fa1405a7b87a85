"""docs/doctor.md holds the table as the code has it."""

import re
from pathlib import Path

import pytest

from redkiln.views.doctor import EXIT_STATUSES
from worker.hardware.doctor.examine import ROWS
from worker.hardware.health.deaths import CAUSES, KERNEL_CAUSES

TEXT = (Path(__file__).parents[4] / "docs" / "doctor.md").read_text()
TABLE = re.findall(r"^\| (\d+) ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", TEXT, re.M)


def test_the_page_has_the_rows_of_the_code_in_their_order():
    assert [(int(line[0]), line[1]) for line in TABLE] == [(row.number, row.title) for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_each_row_has_a_symptom_check_fix_and_source(row):
    _, _, symptom, check, fix, source = TABLE[row.number - 1]
    assert symptom == row.symptom
    assert check.strip()
    assert fix.strip()
    assert source.strip()


def test_every_known_death_belongs_to_a_row_of_the_page():
    numbers = {row.number for row in ROWS}
    assert {cause.row for cause in (*CAUSES, *KERNEL_CAUSES)} - {None} <= numbers


def test_exit_statuses_match_the_code():
    rows = dict(re.findall(r"^\| (\d) \| ([^|]+) \|$", TEXT, re.M))
    assert set(rows) == {str(status) for status in EXIT_STATUSES.values()}
