import pytest

from tests.service.datasets.inspect.boxes.made import coco, labelme, pictures, voc

CAT = [("cat", 1, 1, 10, 20, 0)]
YOLO = {"labels/1.txt": b"0 .5 .5 .5 .5", "labels/2.txt": b"0 .5 .5 .5 .5"}
VOC = {"1.xml": voc(CAT), "2.xml": voc(CAT)}
LABELME = {f"{stem}.json": labelme([("cat", "rectangle", [[1, 1], [5, 5]])]) for stem in "12"}
COCO = {"instances_all.json": coco(["1.png", "2.png"], [(0, 0, [0, 0, 5, 5], {}),
                                                        (1, 0, [0, 0, 5, 5], {})])}  # fmt: skip
YAML = {"data.yaml": b"names: [cat]"}


@pytest.mark.parametrize(
    ("files", "read", "others"),
    [
        (YOLO | YAML | COCO, "yolo", "COCO"),
        (YOLO | COCO, "coco", "YOLO"),
        (YOLO | VOC | LABELME, "voc", "YOLO and LabelMe"),
        (VOC | YAML, "voc", None),
        (LABELME | YOLO, "yolo", "LabelMe"),
    ],
)
def test_of_several_formats_one_is_read_and_the_others_are_named(check, files, read, others):
    index, report = check(files | pictures("1.png", "2.png"))
    assert index.annotation_format == read
    note = f"annotations in {others} format were not read"
    assert (note in report.notes) == (others is not None)


@pytest.mark.parametrize(
    "more",
    [
        {"README.txt": b"0 .5 .5 .5 .5", "notes.json": b'{"info": 1}'},
        {"train/cat/0.txt": b"0 .5 .5 .5 .5"},
        {"data.yaml": b"names: [cat, dog]"},
        {"labels/7.txt": b"0 .5 .5 .5 .5"},
        {"meta.xml": b"<annotation/>"},
        {"other.json": coco(["1.png"], [])},
    ],
)
def test_class_folders_with_files_of_other_kinds_stay_class_folders(make, tmp_path, more):
    from service.datasets.inspect.boxes.find import find_annotations
    from service.datasets.inspect.limits import Limits
    from service.datasets.inspect.source import open_archive

    path = tmp_path / "upload"
    path.write_bytes(make.zip([*make.image_set(), *more.items()]))
    with open_archive(path, work_dir=tmp_path, limits=Limits()) as source:
        files = source.list_files(limits=Limits()).files
        assert find_annotations(source, files, limits=Limits()) is None
