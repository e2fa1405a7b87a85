import pytest

from redkiln.advice.hidden import note_hidden

RENAME = "to use them, rename them without the dot"
SYSTEM = [".DS_Store", "cats/.gitignore", ".thumbs/1.jpg", "Thumbs.db", ".project"]


@pytest.mark.parametrize(
    ("paths", "notes"),
    [
        (SYSTEM, []),
        (
            ["a/.IMG_1.JPG", *SYSTEM],
            ["a hidden file is left out: a/.IMG_1.JPG; to use it, rename it without the dot"],
        ),
        (
            ["b/.b.png", "b/.a.png", "a/.t.csv"],
            [f"3 hidden files are left out, such as a/.t.csv; {RENAME}"],
        ),
        (["__MACOSX/a/._x.jpg"], ["1 file of macOS is left out, such as __MACOSX/a/._x.jpg"]),
        (
            ["a/._x.jpg", "a/._y.jpg", ".z.gif"],
            [
                "a hidden file is left out: .z.gif; to use it, rename it without the dot",
                "2 files of macOS are left out, such as a/._x.jpg",
            ],
        ),
    ],
)
def test_hidden_images_and_tables_are_counted_and_named(paths, notes):
    assert note_hidden(paths) == notes
