import pytest
from pydantic import TypeAdapter, ValidationError

from redkiln.protocol import MediaType

CHECK = TypeAdapter(MediaType).validate_python


@pytest.mark.parametrize(
    "text",
    ["text/plain", "image/svg+xml", "text/plain; charset=utf-8", "application/vnd.apache.parquet"],
)
def test_a_media_type_is_kept(text):
    assert CHECK(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "text/plain\n",
        "text/plain\r\nSet-Cookie: a=b",
        "text/plain; a=b\r\n",
        "text/\nplain",
        "text/plain; charset=utf-8\n\n<script>",
        "text/plaín",
        "text",
        "",
    ],
)
def test_a_media_type_cannot_add_a_header(text):
    with pytest.raises(ValidationError):
        CHECK(text)
