from hypothesis import given
from hypothesis import strategies as st

from worker.tfevents.records import encode_record, read_records
from worker.tfevents.scalars import encode_scalar, parse_scalars

FLOATS = st.floats(width=32, allow_nan=False)


@given(st.text(min_size=1), FLOATS, st.integers(0, 2**63 - 1))
def test_a_written_scalar_is_read_back(name, value, step):
    event = encode_scalar(name, value, step=step, wall_time=1.0)
    assert list(parse_scalars(event)) == [(name, step, value)]


@given(st.lists(st.binary(max_size=30), max_size=4), st.integers(min_value=0, max_value=20))
def test_records_are_read_as_far_as_they_are_complete(contents, num_missing):
    records = [encode_record(content) for content in contents]
    ends = [sum(map(len, records[: number + 1])) for number in range(len(records))]
    data = b"".join(records)
    kept = data[: len(data) - num_missing]
    complete = [pair for pair in zip(contents, ends, strict=True) if pair[1] <= len(kept)]
    assert list(read_records(kept)) == complete
