import pytest
from starlette.datastructures import Headers

from service.artifacts.content import Part, choose_part
from service.errors import PreconditionFailed, RangeNotSatisfiable

ETAG = '"sha256-abc"'
WHOLE = Part(200, 0, 100)


def choose(headers, *, method="GET", size_bytes=100):
    return choose_part(Headers(headers), method=method, etag=ETAG, size_bytes=size_bytes)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("bytes=0-9", Part(206, 0, 10)),
        ("bytes=0-0", Part(206, 0, 1)),
        ("bytes=90-", Part(206, 90, 100)),
        ("bytes=90-1000", Part(206, 90, 100)),
        ("bytes=-10", Part(206, 90, 100)),
        ("bytes=-1000", Part(206, 0, 100)),
        ("BYTES=5-6", Part(206, 5, 7)),
        # Not understood, or several: as if it were not there.
        ("bytes=0-9,20-29", WHOLE),
        ("bytes=9-0", WHOLE),
        ("bytes=-", WHOLE),
        ("bytes=x-y", WHOLE),
        ("bytes=٣-٤", WHOLE),
        ("items=0-9", WHOLE),
        ("bytes=" + "9" * 100 + "-", WHOLE),
        ("", WHOLE),
    ],
)
def test_a_single_range_is_served_and_others_are_ignored(wanted, expected):
    raw = [(b"range", wanted.encode())]
    assert choose_part(Headers(raw=raw), method="GET", etag=ETAG, size_bytes=100) == expected


@pytest.mark.parametrize(
    ("wanted", "size_bytes"),
    [
        ("bytes=100-", 100),
        ("bytes=100-200", 100),
        ("bytes=0-", 0),
        ("bytes=-5", 0),
        ("bytes=-0", 9),
    ],
)
def test_a_range_after_the_end_is_416_with_the_size(wanted, size_bytes):
    with pytest.raises(RangeNotSatisfiable) as error:
        choose({"range": wanted}, size_bytes=size_bytes)
    assert error.value.headers == {"Content-Range": f"bytes */{size_bytes}"}


@pytest.mark.parametrize(
    ("headers", "method", "expected"),
    [
        ({}, "GET", WHOLE),
        ({"range": "bytes=0-9", "if-range": ETAG}, "GET", Part(206, 0, 10)),
        ({"range": "bytes=0-9", "if-range": '"sha256-other"'}, "GET", WHOLE),
        ({"range": "bytes=0-9", "if-range": f"W/{ETAG}"}, "GET", WHOLE),
        ({"range": "bytes=0-9", "if-range": "Wed, 21 Oct 2026 07:28:00 GMT"}, "GET", WHOLE),
        ({"range": "bytes=500-", "if-range": '"sha256-other"'}, "GET", WHOLE),
        ({"range": "bytes=0-9"}, "HEAD", WHOLE),
        ({"if-match": ETAG}, "GET", WHOLE),
        ({"if-match": "*"}, "GET", WHOLE),
        ({"if-match": f'"other", {ETAG}', "range": "bytes=0-9"}, "GET", Part(206, 0, 10)),
        ({"if-none-match": '"other"'}, "GET", WHOLE),
        ({"if-none-match": ETAG}, "GET", Part(304, 0, 0)),
        ({"if-none-match": f"W/{ETAG}"}, "HEAD", Part(304, 0, 0)),
        ({"if-none-match": "*", "range": "bytes=500-"}, "GET", Part(304, 0, 0)),
    ],
)
def test_conditions_are_checked_in_the_order_of_the_standard(headers, method, expected):
    assert choose(headers, method=method) == expected


@pytest.mark.parametrize("condition", ['"other"', f"W/{ETAG}"])
def test_if_match_of_another_content_is_412(condition):
    with pytest.raises(PreconditionFailed):
        choose({"if-match": condition})
