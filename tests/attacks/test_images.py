"""Images that are small as files and cost the decoder minutes."""

import io
import os
import signal
import time

import pytest
from PIL import Image

from service.datasets.inspect.images import BadImage, probe_image
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.probing import probe_all
from service.datasets.inspect.source import open_folder

SCAN, END = b"\xff\xda", b"\xff\xd9"


def progressive(size, *, num_more):
    """Return a progressive JPEG whose last scan is repeated."""
    buffer = io.BytesIO()
    Image.new("L", size).save(buffer, "JPEG", progressive=True)
    data = buffer.getvalue().removesuffix(END)
    return data + data[data.rindex(SCAN) :] * num_more + END


def test_a_bomb_of_scans_is_refused_before_it_is_decoded():
    data = progressive((4000, 4000), num_more=3000)
    assert len(data) < 4000 * 4000
    began = time.process_time()
    with pytest.raises(BadImage, match="more scans than encoders write") as caught:
        probe_image(data, limits=Limits())
    assert caught.value.code == "image_bomb"
    assert time.process_time() - began < 1


def test_the_product_of_scans_and_pixels_is_bounded_too():
    limits = Limits(max_scanned_pixels=20 * 300 * 300)
    assert probe_image(progressive((300, 300), num_more=0), limits=limits).width == 300
    with pytest.raises(BadImage, match="more scans"):
        probe_image(progressive((300, 300), num_more=30), limits=limits)


def test_images_that_encoders_write_are_accepted():
    for options in ({"progressive": True}, {"progressive": False, "restart_marker_blocks": 1}):
        buffer = io.BytesIO()
        Image.effect_noise((512, 512), 90).convert("RGB").save(buffer, "JPEG", **options)
        assert probe_image(buffer.getvalue(), limits=Limits()).width == 512


def test_a_small_file_may_not_cost_much_time():
    assert probe_image(progressive((4000, 3000), num_more=0), limits=Limits()).width == 4000
    with pytest.raises(BadImage, match="more scans"):
        probe_image(progressive((4000, 3000), num_more=90), limits=Limits())


@pytest.mark.parametrize("times", [1, 100])
def test_bombs_inside_tiffs_are_refused_too(times):
    buffer = io.BytesIO()
    Image.new("RGB", (300, 300), "red").save(buffer, "TIFF", compression="jpeg")
    content = buffer.getvalue() + b"\xff\xda" * (times - 1) * 100
    if times == 1:
        assert probe_image(content, limits=Limits()).width == 300
    else:
        with pytest.raises(BadImage, match="more scans"):
            probe_image(content, limits=Limits())


def test_an_image_that_takes_too_long_to_decode_is_refused():
    data = io.BytesIO()
    Image.new("RGB", (64, 64)).save(data, "PNG")
    with pytest.raises(BadImage, match="s of processor time to decode") as caught:
        probe_image(data.getvalue(), limits=Limits(max_image_seconds=0.0))
    assert caught.value.code == "image_bomb"


def test_a_decoder_that_does_not_return_is_killed(tmp_path):
    (tmp_path / "a.jpg").write_bytes(progressive((4000, 3000), num_more=0))
    with open_folder(tmp_path, []) as source:
        (entry,) = source.list_files(limits=Limits()).files
        if (child := os.fork()) == 0:
            limits = Limits(max_image_seconds=0.005)
            probe_all(source, [entry], limits=limits, num_processes=1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGPROF
