"""What a data set contains: pictures, rows, copies across splits, and labels that may be wrong."""

import io
import re
import zipfile

import httpx
import pytest
from PIL import Image
from playwright.sync_api import expect

from redkiln.annotations import class_colour
from tests.page.made import HOSTILE
from tests.service.datasets.inspect.boxes import made

RANGE = re.compile("more than 2 sizes, such as 160 . 128 to 200 . 219")
CUT_LIST = {"data": [], "has_more": True}


def pictures():
    """Images of two classes; a test image has the pixels of a training image."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number in range(24):
            image = io.BytesIO()
            seed = 1 if number == 20 else number
            Image.new("RGB", (8, 8), (10 * seed, 255 - 10 * seed, 90)).save(image, "PNG")
            split, name = ("test" if number >= 20 else "train"), ("cat", "dog")[number % 2]
            archive.writestr(f"{split}/{name}/{number}.png", image.getvalue())
    return content.getvalue()


@pytest.fixture(scope="module")
def upload(site):
    def upload(content, **options):
        with httpx.Client(base_url=site.stack.url, timeout=60) as client:
            made = client.post("/v1/datasets", params=options, content=content,
                               headers={"Content-Type": "application/octet-stream"})  # fmt: skip
            made.raise_for_status()
            path = f"/v1/datasets/{made.json()['id']}"
            site.wait_for(lambda: client.get(path).json()["status"] == "ready")
        return made.json()["id"]

    return upload


def test_images_are_shown_by_class_with_copies_across_splits(open_page, upload):
    page = open_page(f"/data/{upload(pictures(), name='pets')}")
    tiles = page.get_by_role("region", name="Samples").get_by_role("img")
    expect(tiles).to_have_count(20)
    for number, name in enumerate(("cat", "dog", "cat")):
        expect(tiles.nth(number)).to_have_attribute("aria-label", re.compile(f"^{name}: "))
    page.get_by_label("Class", exact=True).select_option("cat")
    expect(tiles).to_have_count(10)
    expect(tiles.first).to_have_attribute("aria-label", re.compile("^cat: train/cat/"))
    page.get_by_label("Split").select_option("test")
    expect(tiles).to_have_count(2)
    expect(page).to_have_url(re.compile(r"\?class=cat&split=test$"))
    page.get_by_text("Copies and their originals").click()
    expect(page.get_by_text(re.compile("test/cat/20.png = train/dog/1.png"))).to_be_visible()
    page.get_by_text("Copies in another class").click()
    pair = re.compile("test/cat/20.png: cat = train/dog/1.png: dog")
    expect(page.get_by_text(pair)).to_be_visible()


def test_boxes_are_counted_and_shown_in_the_colours_of_their_classes(open_page, upload):
    names = [f"{number}.png" for number in range(6)]
    files = made.pictures(*names)
    boxes = [(number, number % 2, [10, 5, 20, 10], {}) for number in range(6)]
    files["_annotations.coco.json"] = made.coco(names, boxes)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    page = open_page(f"/data/{upload(content.getvalue(), name='street')}")
    expect(page.get_by_text("small boxes")).to_be_visible()
    colours = page.get_by_label("Colours of the classes").get_by_role("listitem").locator("i")
    for label in range(2):
        red, green, blue = class_colour(label)
        expect(colours.nth(label)).to_have_css("background-color", f"rgb({red}, {green}, {blue})")
    tiles = page.get_by_role("region", name="Samples").get_by_role("img")
    expect(tiles).to_have_count(4)
    page.get_by_label("Class", exact=True).select_option("cat")
    expect(tiles).to_have_count(2)
    expect(tiles.first).to_have_attribute("aria-label", re.compile("^cat: "))


def test_rows_of_texts_are_shown_as_text(open_page, upload):
    lines = [f"{('ham', 'spam')[i % 2]}\ttext number {i} {HOSTILE}" for i in range(60)]
    content = "label\ttext\n" + "\n".join(lines)
    page = open_page(f"/data/{upload(content.encode(), name='mails', target='label')}")
    page.get_by_label("Class", exact=True).select_option("spam")
    rows = page.get_by_role("group", name="Rows").locator("tbody tr")
    expect(rows.first).to_contain_text(HOSTILE)
    expect(rows.filter(has_text="ham")).to_have_count(0)
    assert "owned" not in page.title()


def test_the_most_confident_mistakes_of_a_job_may_be_wrong_labels(site, made_job, open_page):
    dataset = site.client.job(made_job).dataset_id
    page = open_page(f"/data/{dataset}?job={made_job}")
    suspects = page.get_by_role("region", name="Labels that may be wrong")
    expect(suspects.get_by_role("img")).to_have_count(2)
    expect(suspects.get_by_role("listitem").first).to_contain_text("90.0 %")


def test_an_older_version_of_a_data_set_can_be_chosen(open_page, upload):
    lines = [f"{'ab'[i % 2]}\tthis is text number {i}\n" for i in range(60)]
    older, newer = (
        upload("".join(["label\ttext\n", *lines[:num]]).encode(), name="notes", target="label")
        for num in (40, 60)
    )
    page = open_page(f"/data/{newer}")
    expect(page.get_by_role("region", name="Versions").get_by_role("row")).to_have_count(3)
    page.get_by_role("region", name="Versions").get_by_role("link", name="1").click()
    expect(page.get_by_text("shown here")).to_be_visible()
    page.get_by_role("link", name="Train on it").click()
    editor = page.get_by_label("Spec as YAML")
    expect(editor).to_contain_text(older)
    version = page.get_by_label("Version")
    expect(version).to_have_value(older)
    expect(page.get_by_role("group", name="Rows").get_by_role("row")).to_have_count(9)
    version.select_option("")
    expect(editor).to_contain_text("dataset: notes")


def test_data_sets_beyond_the_first_page_are_found(open_page, upload):
    dataset = upload(pictures(), name="oldest")
    page = open_page("/new")
    # The service says that its list has more.
    page.route("**/v1/datasets?limit=200", lambda route: route.fulfill(json=CUT_LIST))
    page.goto("/data")
    page.get_by_label("Search data sets by name").fill("OLDE")
    page.get_by_role("link", name="oldest").first.click()
    expect(page).to_have_url(re.compile(f"/data/{dataset}$"))
    page.goto("/new")
    choice = page.get_by_label("Or use a data set")
    page.get_by_label("Search all data sets by name").fill("olde")
    choice.select_option("oldest")
    expect(page.get_by_role("region", name="Samples").get_by_role("img")).to_have_count(8)


def test_space_is_freed_from_what_takes_most(site, open_page, upload):
    dataset = upload(pictures(), name="unwanted")
    page = open_page("/settings")
    storage = page.get_by_role("region", name="Storage")
    storage.get_by_text("Largest jobs and data sets").click()
    storage.get_by_role("button", name="Delete unwanted").click()
    page.get_by_role("button", name="Delete the data set").click()
    expect(storage.get_by_role("link", name="unwanted")).not_to_be_attached()
    assert httpx.get(f"{site.stack.url}/v1/datasets/{dataset}").status_code == 404


def test_sizes_are_a_range_and_years_have_no_separators(open_page, upload):
    dataset_id = upload(pictures(), name="years")
    year = {"name": "date.year", "type": "numeric", "num_missing": 0}
    facts = {
        "image_sizes": {"200x219": 3, "160x128": 9, "other": 4},
        "columns": [{**year, "minimum": 2023, "maximum": 2025, "mean": 2024.2}],
    }
    page = open_page("/")
    page.route(
        f"**/v1/datasets/{dataset_id}",
        lambda route: route.fulfill(json={**route.fetch().json(), **facts}),
    )
    page.goto(f"/data/{dataset_id}")
    expect(page.get_by_text(RANGE)).to_be_visible()
    expect(page.get_by_text("2023 to 2025, mean 2024")).to_be_visible()
