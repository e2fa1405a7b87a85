"""The types of the page are those of the API."""

from tools.page_types import DIGEST_LINE, TYPES_FILE, build_document, digest_of


def test_the_types_of_the_page_come_from_the_present_api():
    first = TYPES_FILE.read_text().splitlines()[0]
    assert first == DIGEST_LINE + digest_of(build_document()), (
        "the API has changed since the page's types were generated; run `make page-types`, and "
        "`make page`, which checks that the page fits"
    )
