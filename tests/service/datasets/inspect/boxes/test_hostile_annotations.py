"""Whatever the annotations hold, an inspection ends with a report."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.datasets.inspect.report import INDEX
from tests.service.datasets.inspect.boxes.made import coco, labelme, pictures, voc, zipped
from tests.service.datasets.inspect.test_hostile import MUTATIONS, QUICK, look, mutate

FEW = settings(QUICK, max_examples=40)


BOX_FILES = {
    "_annotations.coco.json": coco(["1.png", "2.png"], [(0, 0, [1, 1, 5, 5], {})]),
    "data.yaml": b"names: [cat, dog]\ntrain: .\n",
    "labels/1.txt": b"0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.9 0.2 0.4 0.8\n",
    "1.xml": voc([("cat", 1, 1, 5, 5, 0)]),
    "1.json": labelme([("cat", "polygon", [[1, 1], [5, 2], [4, 4]])]),
}


@FEW
@given(name=st.sampled_from(sorted(BOX_FILES)), mutations=MUTATIONS)
def test_damaged_annotations_end_with_a_report(tmp_path, name, mutations):
    content = mutate(BOX_FILES[name], mutations)
    look(tmp_path, zipped({name: content, **pictures("1.png", "2.png", size=(8, 8))}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["id", "image_id", "bbox", "category_id", "name", "file_name", "width",
                         "points", "label", "shape_type"]), inner, max_size=5),
    max_leaves=10,
)  # fmt: skip


@FEW
@given(lists=st.lists(st.lists(JSON, max_size=3), min_size=3, max_size=3))
def test_json_of_any_shape_ends_with_a_report(tmp_path, lists):
    images = [{"id": 0, "file_name": "1.png"}, *lists[0]]
    categories = [{"id": 0, "name": "cat"}, *lists[1]]
    content = {"images": images, "categories": categories, "annotations": lists[2]}
    files = {"instances_all.json": json.dumps(content).encode()}
    look(tmp_path, zipped(files | pictures("1.png", "2.png", size=(8, 8))))
    shapes = {"shapes": lists[2], "imagePath": lists[0]}
    files = {"1.json": json.dumps(shapes).encode()}
    look(tmp_path, zipped(files | pictures("1.png", size=(8, 8))))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("instances_all.json", b'{"images":' + b"[" * 100_000),
        ("instances_all.json", b'{"images":[],"categories":[],"annotations":[],"x":' + b"[" * 5000),
        ("1.json", b'{"shapes": [{"points":' + b"[" * 100_000),
        ("1.xml", b"<annotation>" + b"<object>" * 100_000),
        ("1.xml", b'<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><annotation/>'),
        ("data.yaml", b"a: &a [x, x, x]\nb: &b [*a, *a, *a]\nnames: [*b, *b, *b]\n"),
        ("data.yaml", b"names: " + b"[" * 100_000),
        ("data.yaml", b"names: " + b"{a: " * 100_000),
    ],
    ids=["json", "unread json", "labelme", "xml", "entities", "aliases", "lists", "mappings"],
)  # fmt: skip
def test_annotations_that_unfold_or_nest_without_end_are_refused_quickly(tmp_path, name, content):
    files = {name: content, **pictures("1.png", "2.png")}
    if name == "data.yaml":
        files["labels/1.txt"] = b"0 .5 .5 .2 .2"
    began = time.process_time()
    look(tmp_path, zipped(files))
    assert time.process_time() - began < 5
    assert not (tmp_path / INDEX).exists()
