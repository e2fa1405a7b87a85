import gzip

import pytest

from worker.agent.data.sent_files import name_table


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"a,b\n1,2\n", "data.csv"),
        (b"a;b\n1;2\n", "data.csv"),
        (b"a\tb, c\td\n", "data.tsv"),
        (b'{"a": 1}\n', "data.jsonl"),
        (b'\xef\xbb\xbf {"a": 1}\n', "data.jsonl"),
        (b"PAR1....", "data.parquet"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "data.csv.gz"),
        (gzip.compress(b'{"a": 1}\n', mtime=0), "data.jsonl.gz"),
        (gzip.compress(b"a,b\n", mtime=0)[:6], "data"),
    ],
)
def test_a_table_is_named_by_its_content(tmp_path, content, name):
    path = tmp_path / "data"
    path.write_bytes(content)
    assert name_table(path) == name
