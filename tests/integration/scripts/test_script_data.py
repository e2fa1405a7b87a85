"""What a script finds at {data}, through the real queue."""

import pytest

from redkiln.status import JobStatus
from redkiln.views.dataset import DatasetStatus

pytestmark = pytest.mark.integration

ROWS = "size,price\n" + "".join(f"{n},{n * 1000}.5\n" for n in range(1, 41))
TEXTS = "text,label\n" + "".join(
    f"a review of {n} words that was {mood},{mood}\n" for n in range(40) for mood in ("good", "bad")
)
SHOW = """
    import os, sys
    path = sys.argv[1]
    assert path == os.environ["REDKILN_DATA"]
    if os.path.isdir(path):
        print("folder", sorted(os.listdir(path)))
    else:
        print("file", os.path.basename(path))
        sys.stdout.flush()
        sys.stdout.buffer.write(open(path, "rb").read())
"""


def show(site, name):
    job_id = site.run_script("python", "-c", SHOW, "{data}", dataset=name)
    job = site.wait_for_end(job_id)
    assert job.status is JobStatus.SUCCEEDED, site.log(job_id)
    return site.log(job_id)


def push(site, path, **options):
    dataset = site.client.push_dataset(path, **options)

    def is_read():
        return site.client.dataset(dataset.id).status is not DatasetStatus.VALIDATING

    site.wait_for(is_read)
    return dataset.name


def test_a_table_is_the_file_that_was_sent(scripts, tmp_path):
    (tmp_path / "houses.csv").write_text(ROWS)
    found = show(scripts, push(scripts, tmp_path / "houses.csv", target="price"))
    assert found.splitlines()[0] == "file data.csv"
    assert ROWS in found


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_table_that_was_refused_is_what_was_sent(scripts, tmp_path, is_folder):
    folder = tmp_path / "rides"
    folder.mkdir()
    path = folder / "rides.csv"
    rows = [f"{n},{n}.5" for n in range(100)] + ['3,"22,2"'] * 9
    path.write_text("\n".join(["km,temp_c", *rows, ""]))
    name = push(scripts, folder if is_folder else path, target="km", task="tabular-regression")
    assert scripts.client.dataset(name).status is DatasetStatus.INVALID
    found = show(scripts, name)
    assert found.startswith("folder ['rides.csv']" if is_folder else "file data.csv\nkm,temp_c")


def test_a_table_with_a_test_split_is_the_folder_that_was_sent(scripts, tmp_path):
    folder = tmp_path / "reviews"
    folder.mkdir()
    (folder / "train.csv").write_text(TEXTS)
    (folder / "test.csv").write_text(TEXTS)
    found = show(scripts, push(scripts, folder))
    assert "folder ['test.csv', 'train.csv']" in found


def test_a_table_that_is_built_in_is_a_parquet_file(scripts):
    assert "file iris.parquet" in show(scripts, "builtin:iris")
