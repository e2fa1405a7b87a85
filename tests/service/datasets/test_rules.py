import pytest

from service.database import read_now
from service.datasets.models import Dataset
from service.datasets.rules import dataset_ref, find_dataset


@pytest.fixture
def add(services):
    """Adds a row; later ones have later ids."""
    numbers = iter(range(1, 100))

    def add(name, status, *, is_deleted=False):
        def write(session):
            now = read_now(session)
            dataset = Dataset(
                id=f"ds_{next(numbers):03}",
                name=name,
                status=status,
                kind="archive",
                created_at=now,
                deleted_at=now if is_deleted else None,
            )
            session.add(dataset)
            return dataset.id

        return services.database.write(write)

    return add


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], None),
        (["ready"], 0),
        (["ready", "ready"], 1),
        (["ready", "validating"], 1),
        (["ready", "invalid"], 0),
        (["validating", "invalid"], 0),
        (["validating", "validating"], 1),
        (["invalid", "invalid"], 1),
        (["ready", "ready deleted"], 0),
        (["ready deleted"], None),
    ],
)
def test_a_name_refers_to_its_newest_set_that_is_not_invalid(services, add, statuses, expected):
    ids = [
        add("pets", status.split()[0], is_deleted=status.endswith("deleted")) for status in statuses
    ]
    add("other", "ready")
    found = services.database.read(lambda session: find_dataset(session, "pets"))
    assert (found.id if found else None) == (None if expected is None else ids[expected])


def test_an_id_refers_to_its_set_even_if_a_newer_one_has_the_name(services, add):
    first, _ = add("pets", "ready"), add("pets", "ready")
    deleted = add("pets", "ready", is_deleted=True)
    assert services.database.read(lambda s: find_dataset(s, first)).id == first
    assert services.database.read(lambda s: find_dataset(s, deleted)) is None


def test_a_built_in_set_is_found_by_its_name(services):
    found = services.database.read(lambda s: find_dataset(s, "builtin:digits"))
    assert (found.kind, found.status) == ("builtin", "ready")


def test_a_worker_learns_of_leaking_columns_and_copies_in_the_test_split():
    warnings = [
        {"code": "leaking_columns", "message": "column paid predicts the target"},
        {"code": "copies_in_training", "message": "2 copies"},
        {"code": "copies_across_splits", "message": "3 copies", "count": 3},
        {"code": "near_copies_across_splits", "message": "4 copies", "count": 4},
        {"code": "near_copies_across_splits", "message": "of an earlier version"},
        {"code": "copies_in_test", "message": "5 copies", "count": 4},
        {"code": "near_copies_in_test", "message": "a near copy", "count": 1},
    ]
    dataset = Dataset(id="ds_1", name="d", kind="archive", report={"warnings": warnings})
    ref = dataset_ref(dataset, roots=[])
    assert ref.warnings[:2] == ["column paid predicts the target", "2 copies"]
    assert (len(ref.warnings), ref.num_copies, ref.num_repeated) == (7, 7, 5)
    assert ref.leaks == ["column paid predicts the target"]
