import pytest

from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry, Listing, find_fault, is_ignored
from service.datasets.inspect.report import Refused, show


@pytest.mark.parametrize(
    "path",
    [
        "../evil.png",
        "train/../../evil.png",
        "a/..",
        "/etc/passwd",
        "C:/windows/x.png",
        "c:x.png",
        "train\\cat\\1.png",
        "..\\evil.png",
        "train/cat\n/1.png",
        "train/\x1b[31m/1.png",
        "train/\udcff/1.png",
        "a/" * 40 + "1.png",
        "a" * 2000,
    ],
)
def test_unsafe_names_are_refused(path):
    assert find_fault(path, limits=Limits())[0] == "unsafe_path"


@pytest.mark.parametrize(
    "path", ["train/cat/1.png", "./train/cat/1.png", "Äpfel/été 1.png", "a..b/c..png", "...", "a/"]
)
def test_ordinary_names_are_accepted(path):
    assert find_fault(path, limits=Limits()) is None


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("cat/.DS_Store", True),
        ("cat/Thumbs.db", True),
        ("cat/THUMBS.DB", True),
        ("__MACOSX/cat/._1.png", True),
        (".git/config", True),
        ("cat/.ipynb_checkpoints/1.png", True),
        ("cat/@eaDir/1.png", True),
        ("cat/desktop.ini", True),
        ("cat/1.png", False),
        ("thumbs/1.png", False),
    ],
)
def test_system_files_are_ignored(path, ignored):
    assert is_ignored(tuple(path.split("/"))) is ignored


def add(listing, path):
    parts = listing.parse(path)
    if parts is not None:
        listing.add_file(Entry(path=path, size_bytes=1))


def test_a_duplicate_name_is_refused():
    listing = Listing(Limits())
    add(listing, "cat/1.png")
    add(listing, "./cat//1.png")
    with pytest.raises(Refused) as refused:
        listing.close()
    assert [(p.code, p.path) for p in refused.value.problems] == [
        ("duplicate_name", "./cat//1.png")
    ]


def test_a_name_that_is_both_file_and_folder_is_refused():
    listing = Listing(Limits())
    add(listing, "cat/1.png")
    add(listing, "cat")
    with pytest.raises(Refused, match="a file and a folder"):
        listing.close()


def test_every_problem_is_counted_and_the_first_hundred_are_listed():
    listing = Listing(Limits())
    for number in range(150):
        add(listing, f"../{number}.png")
    with pytest.raises(Refused) as refused:
        listing.close()
    assert len(refused.value.problems) == 101
    assert refused.value.problems[-1].message == "and 50 more problems like these"


def test_too_many_entries_are_refused_at_once():
    listing = Listing(Limits(max_entries=3))
    for number in range(3):
        add(listing, f"cat/{number}.png")
    with pytest.raises(Refused, match="more than 3 files"):
        add(listing, "cat/3.png")


def test_odd_characters_are_escaped_and_long_names_are_cut():
    assert show("a\n\x1b\udcff.png") == "a\\n\\x1b\\udcff.png"
    assert len(show("a" * 5000)) == 303
