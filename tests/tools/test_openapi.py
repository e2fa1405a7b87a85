"""docs/openapi.json is the service's document; a difference is shown place by place."""

import json

from tools.openapi import FILE, build_document, find_differences


def test_the_frozen_document_is_the_service_s():
    differences = find_differences(json.loads(FILE.read_text()), build_document())
    shown = "\n".join(differences[:50])
    assert not differences, f"the API has changed; if on purpose, run `make openapi`:\n{shown}"


def test_a_difference_names_its_place():
    old = {"paths": {"/a": {"get": [1, 2]}, "/b": 1}, "x": "same"}
    new = {"paths": {"/a": {"get": [1, 3]}, "/c": 1}, "x": "same"}
    assert find_differences(old, new) == ["~ /paths//a/get/1: 2 -> 3", "- /paths//b", "+ /paths//c"]
    assert find_differences([1], [1, 2]) == ["~ : [1] -> [1, 2]"]
