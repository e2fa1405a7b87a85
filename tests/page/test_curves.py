"""The curves of a job, live and when it has ended."""

import re

from playwright.sync_api import expect

from tests.waiting import wait_for

HEIGHT_OF_CURVE = """
(canvas) => {
  const { width, height } = canvas
  const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data
  const shares = []
  for (let i = 0; i < width * height; i += 1) {
    const [red, green, blue, alpha] = pixels.slice(4 * i, 4 * i + 4)
    const isColoured = alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60
    if (isColoured) shares.push(1 - Math.floor(i / width) / height)
  }
  return shares.sort((a, b) => a - b)[Math.floor(shares.length / 2)]
}
"""


def test_curves_grow_and_the_address_keeps_the_choices(site, open_page):
    job_id = site.submit(name="beech", epochs=12, metadata={"step_seconds": "0.05"})
    page = open_page(f"/jobs/{job_id}")
    figure = page.get_by_role("figure").filter(has_text="Loss")
    expect(figure.get_by_role("img", name=re.compile(r"train.loss 0\.\d+"))).to_be_visible()
    early = figure.get_by_role("img").get_attribute("aria-label")
    expect(figure.get_by_role("img", name=early, exact=True)).not_to_be_attached()
    page.get_by_label("Along").select_option("time")
    expect(page).to_have_url(re.compile(r"\?x=time$"))
    page.get_by_label("Along").select_option("step")
    page.get_by_label("Smoothing").fill("0.9")
    expect(page).to_have_url(re.compile(r"\?x=step&smooth=0.9$"))
    expect(page.get_by_text("0.90", exact=True)).to_be_visible()
    page.goto(f"/jobs/{job_id}")
    page.get_by_label("Log scale").check()
    page.get_by_role("tab", name="Events").click()
    expect(page).to_have_url(re.compile(r"\?log=1&tab=events$"))
    expect(page.get_by_role("cell", name="succeeded")).to_be_visible()
    page.get_by_role("tab", name="Files").click()
    expect(page.get_by_role("link", name="model.onnx")).to_be_visible()
    page.get_by_role("tab", name="Logs").click()
    page.get_by_label("Search in the log").fill("dataset=")
    expect(page.get_by_label("Log", exact=True)).to_contain_text("start=0")


def test_curves_have_panels_and_a_logarithmic_scale(made_job, open_page):
    page = open_page(f"/jobs/{made_job}")
    panels = ("Loss", "Score", "Learning rate", "Throughput, samples per second", "Use",
              "Power, watts")  # fmt: skip
    for panel in panels:
        shown = page.get_by_role("figure").filter(has=page.get_by_role("heading", name=panel))
        expect(shown.locator("canvas")).to_be_visible()
    sensor = page.get_by_role("img", name=re.compile("^Power, watts: gpu.*_watts 210$"))
    expect(sensor).to_be_visible()
    loss = page.get_by_role("figure").filter(has_text="train/loss").locator("canvas")
    linear = wait_for(lambda: loss.evaluate(HEIGHT_OF_CURVE))
    page.get_by_label("Log scale").check()
    expect(page.get_by_role("img", name=re.compile("^Loss, on a log scale: "))).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?log=1$"))
    # The loss is 100 / step: most of it is at the lower edge, but not of its logarithm.
    wait_for(lambda: (loss.evaluate(HEIGHT_OF_CURVE) or 0) > linear + 0.05)


def test_a_zoomed_part_of_a_curve_has_all_its_points(made_job, open_page):
    page = open_page(f"/jobs/{made_job}")
    plot = page.get_by_role("figure").filter(has_text="Loss").locator(".u-over")
    expect(plot).to_be_visible()
    box = wait_for(plot.bounding_box)  # none while the chart is drawn again
    middle, end = ({"x": share * box["width"], "y": 40} for share in (0.5, 0.6))
    with page.expect_response(lambda r: "from_step=" in r.url) as asked:
        plot.drag_to(plot, source_position=middle, target_position=end)
    (loss,) = asked.value.json()["series"]
    assert loss["steps"] == list(range(loss["steps"][0], loss["steps"][-1] + 1))
    assert 2900 < loss["steps"][0] < loss["steps"][-1] < 3700
    expect(page).to_have_url(re.compile(r"\?zoom=\d"))
    page.get_by_role("button", name="Show all").first.click()
    expect(page).to_have_url(re.compile(f"/jobs/{made_job}$"))
    page.get_by_label("Along").select_option("epoch")
    expect(page).to_have_url(re.compile(r"\?x=epoch$"))
    page.goto(f"/jobs/{made_job}")
    curve = page.get_by_role("button", name="train/loss")
    curve.click()
    expect(page).to_have_url(re.compile(r"\?hide=train%2Floss$"))
    page.reload()
    expect(curve).to_have_attribute("aria-pressed", "false")
    page.goto(f"/jobs/{made_job}?tab=spec&all=1")
    expect(page.get_by_role("cell", name="/retry/lost_workers")).to_be_visible()
    page.goto(f"/jobs/{made_job}?tab=logs&follow=0")
    expect(page.get_by_label("Follow")).not_to_be_checked()


WRITTEN = """
    window.written = []
    const { fillText } = CanvasRenderingContext2D.prototype
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        window.written.push(text)
        return fillText.call(this, text, ...rest)
    }
"""


def test_the_axis_of_a_share_with_one_point_ends_at_100_percent(made_job, open_page):
    page = open_page("/")
    page.add_init_script(WRITTEN)
    point = {"steps": [1], "values": [1.0], "num_points": 1, "downsampled": False}
    series = {"series": [{"name": "val/accuracy", **point}]}
    page.route(re.compile(r"/metrics(\?|$)"), lambda route: route.fulfill(json=series))
    page.route(re.compile(r"/telemetry(\?|$)"), lambda route: route.fulfill(json={"series": []}))
    page.goto(f"/jobs/{made_job}")
    expect(page.get_by_role("img", name=re.compile("val.accuracy 100.0 %"))).to_be_visible()
    page.wait_for_function("() => window.written.some((text) => text.endsWith('%'))")
    shares = [text for text in page.evaluate("window.written") if text.endswith("%")]
    assert 90 <= max(float(text.removesuffix(" %")) for text in shares) <= 100
