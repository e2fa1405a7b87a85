"""What the page's types are made of."""

from tools.page_types import (
    DIGEST_LINE,
    TYPES_FILE,
    build_document,
    digest_of,
    reachable,
    without_texts,
)


def test_the_types_of_the_page_come_from_the_present_api():
    first = TYPES_FILE.read_text().splitlines()[0]
    assert first == DIGEST_LINE + digest_of(build_document()), (
        "the API has changed since the page's types were generated; run `make page-types`, and "
        "`make page-check`, which checks that the page fits"
    )


def test_texts_do_not_count_but_properties_named_like_them_do():
    schema = {"title": "A", "properties": {"title": {"type": "string", "description": "B"}}}
    assert without_texts(schema) == {"properties": {"title": {"type": "string"}}}


def test_only_schemas_that_are_referred_to_are_kept():
    schemas = {"A": {"items": {"$ref": "#/components/schemas/B"}}, "B": {}, "C": {}}
    assert reachable(["A"], schemas) == {"A", "B"}
