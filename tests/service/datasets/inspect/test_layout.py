import pytest

from service.datasets.inspect.layout import arrange


def parts(*paths):
    return [tuple(path.split("/")) for path in paths]


def summarise(paths, folders=()):
    layout = arrange(paths, parts(*folders))
    return {paths[m.position]: (m.split, m.class_name) for m in layout.members}, layout


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (
            ["train/cat/1.png", "test/cat/2.png"],
            {"train/cat/1.png": ("train", "cat"), "test/cat/2.png": ("test", "cat")},
        ),
        (
            ["cat/1.png", "dog/2.png"],
            {"cat/1.png": ("train", "cat"), "dog/2.png": ("train", "dog")},
        ),
        (
            ["pets/cat/1.png", "pets/dog/2.png", "pets/README.md"],
            {"pets/cat/1.png": ("train", "cat"), "pets/dog/2.png": ("train", "dog")},
        ),
        (
            ["a/b/Train/cat/1.png", "a/b/TEST/cat/2.png"],
            {"a/b/Train/cat/1.png": ("train", "cat"), "a/b/TEST/cat/2.png": ("test", "cat")},
        ),
        (
            ["train/cat/images/1.png", "train/dog/2.png"],
            {"train/cat/images/1.png": ("train", "cat"), "train/dog/2.png": ("train", "dog")},
        ),
        (
            ["train/cat/1.png", "val/cat/2.png"],
            {"train/cat/1.png": ("train", "cat"), "val/cat/2.png": ("validation", "cat")},
        ),
        # A vehicle, not a split: it holds images.
        (
            ["train/1.png", "bus/2.png"],
            {"train/1.png": ("train", "train"), "bus/2.png": ("train", "bus")},
        ),
        # A lone folder called test is just where the classes lie.
        (
            ["test/cat/1.png", "test/dog/2.png"],
            {"test/cat/1.png": ("train", "cat"), "test/dog/2.png": ("train", "dog")},
        ),
        (["train/cat/1.png", "docs/a/b.png"], {"train/cat/1.png": ("train", "cat")}),
        (["1.png", "2.png"], {}),
        ([], {}),
    ],
)
def test_splits_and_classes_are_found_in_the_names(paths, expected):
    found, layout = summarise(paths)
    assert found == expected
    assert len(layout.outside) == len(paths) - len(expected)


def test_an_empty_class_folder_is_a_class():
    _, layout = summarise(["train/cat/1.png"], folders=["train/dog", "test"])
    assert set(layout.class_folders) == {("train", "cat"), ("train", "dog")}
    assert not layout.has_test


def test_dev_folders_are_validation_folders():
    _, layout = summarise(["train/cat/1.png", "dev/cat/2.png"])
    assert [(member.split, member.class_name) for member in layout.members] == [
        ("train", "cat"),
        ("validation", "cat"),
    ]


def test_an_outer_folder_is_noted():
    _, layout = summarise(["pets/cat/1.png", "pets/dog/1.png"])
    assert layout.notes == ["the class folders are in pets/"]
