"""Pillow's ways to make a photo square, as nodes of ONNX that are written as text.

Each turns `photos` (B, H, W, C) uint8 into `square` (B, S, S, C), whole numbers from 0 to 255.

Source: Pillow's `Image.resize`, `ImageOps.fit` and `ImageOps.pad`, and its `Resample.c`.
"""

from redkiln.predict.pixels import PixelFormat
from redkiln.predict.session import PHOTOS

FILTER = (
    'mode = "linear", antialias = 1, exclude_outside = 1, axes = [1, 2], '
    'coordinate_transformation_mode = "half_pixel"'
)
"""Pillow's BILINEAR: the filter widens when it shrinks, and ignores what is outside."""

STRETCH = f"""
    sides = Constant <value_ints = [SIZE, SIZE]> ()
    square = Resize <{FILTER}> ({PHOTOS}, , , sides)
"""

# Sides are computed in float64 (11), as Pillow computes them, before they are rounded.
PAD = f"""
    shape = Shape <start = 1, end = 3> ({PHOTOS})
    lengths = Cast <to = 11> (shape)
    longest = ReduceMax <keepdims = 1> (lengths)
    parts = Div (lengths, longest)
    size = Constant <value_int = SIZE> ()
    exact_size = Cast <to = 11> (size)
    exact = Mul (parts, exact_size)
    rounded = Round (exact)
    whole = Cast <to = 7> (rounded)
    one = Constant <value_int = 1> ()
    sides = Max (whole, one)
    small = Resize <{FILTER}> ({PHOTOS}, , , sides)
    absent = Sub (size, sides)
    exact_absent = Cast <to = 1> (absent)
    half = Constant <value_float = 0.5> ()
    exact_before = Mul (exact_absent, half)
    rounded_before = Round (exact_before)
    before = Cast <to = 7> (rounded_before)
    after = Sub (absent, before)
    none = Constant <value_ints = [0]> ()
    pads = Concat <axis = 0> (none, before, none, none, after, none)
    square = Pad (small, pads)
"""

# Pillow's filter reads beyond the cut, and the cut may begin within a pixel. Resize can do neither,
# so the weights of each row and column are computed here.
CROP = f"""
    shape = Shape <start = 1, end = 3> ({PHOTOS})
    lengths = Cast <to = 1> (shape)
    shortest = ReduceMin <keepdims = 0> (lengths)
    size = Constant <value_float = SIZE.0> ()
    step = Div (shortest, size)
    one = Constant <value_float = 1.0> ()
    support = Max (step, one)
    absent = Sub (lengths, shortest)
    half = Constant <value_float = 0.5> ()
    starts = Mul (absent, half)
    zero = Constant <value_float = 0.0> ()
    places = Range (zero, size, one)
    middles = Add (places, half)
    spread = Mul (middles, step)
    last = Constant <value_ints = [1]> ()
    WEIGHTS
    levels_in = Cast <to = 1> ({PHOTOS})
    planes = Transpose <perm = [0, 3, 1, 2]> (levels_in)
    across = Transpose <perm = [1, 0]> (weights_1)
    exact_narrow = MatMul (planes, across)
    above_narrow = Add (exact_narrow, half)
    narrow = Floor (above_narrow)
    exact_square = MatMul (weights_0, narrow)
    above_square = Add (exact_square, half)
    rounded = Floor (above_square)
    square = Transpose <perm = [0, 2, 3, 1]> (rounded)
"""
WEIGHTS = """
    axis_N = Constant <value_int = N> ()
    length_N = Gather <axis = 0> (lengths, axis_N)
    start_N = Gather <axis = 0> (starts, axis_N)
    centres_N = Add (spread, start_N)
    column_N = Unsqueeze (centres_N, last)
    pixels_N = Range (zero, length_N, one)
    pixel_middles_N = Add (pixels_N, half)
    differences_N = Sub (column_N, pixel_middles_N)
    distances_N = Abs (differences_N)
    shares_N = Div (distances_N, support)
    rests_N = Sub (one, shares_N)
    raw_N = Max (rests_N, zero)
    sums_N = ReduceSum <keepdims = 1> (raw_N, last)
    weights_N = Div (raw_N, sums_N)
"""


def resize_nodes(pixel_format: PixelFormat) -> str:
    """Return the nodes that make photos square in one of Pillow's ways."""
    weights = "".join(WEIGHTS.replace("_N", f"_{n}").replace("= N>", f"= {n}>") for n in (0, 1))
    text = {"stretch": STRETCH, "pad": PAD, "crop": CROP.replace("WEIGHTS", weights)}
    return text[pixel_format.resize].replace("SIZE", str(pixel_format.size))
