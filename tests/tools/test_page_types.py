"""What the page's types are made of."""

from tools.page_types import reachable, without_texts


def test_texts_do_not_count_but_properties_named_like_them_do():
    schema = {"title": "A", "properties": {"title": {"type": "string", "description": "B"}}}
    assert without_texts(schema) == {"properties": {"title": {"type": "string"}}}


def test_only_schemas_that_are_referred_to_are_kept():
    schemas = {"A": {"items": {"$ref": "#/components/schemas/B"}}, "B": {}, "C": {}}
    assert reachable(["A"], schemas) == {"A", "B"}
