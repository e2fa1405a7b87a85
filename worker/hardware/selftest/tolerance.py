"""How far from float64 a right result may be.

The rule applies to inputs that were rounded to the tested type. Relative to the root mean square of
the right numbers,

    allowed = SAFETY * sqrt(depth) * (sqrt(reduction_length) * u(fp32) + u(type))

where u is the unit roundoff, `reduction_length` is the number of terms of the longest sum, which
every BLAS and DNN library accumulates at least in float32, and `depth` is the number of consecutive
rounded operations. Rounding goes up about as often as down, so n roundings add up to sqrt(n), not
to n. SAFETY covers the largest of up to millions of numbers (5 to 6 standard deviations), another
order of the terms, and partial sums that are kept in the narrower type.

A wrong kernel is wrong by about 1, so the exact value does not matter.

Source: N. J. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J.
Sci. Comput. 41(5), 2019 (the root); IEEE 754 (unit roundoffs).
"""

import math

from redkiln.views.hardware import Precision

SAFETY = 12.0
UNIT_ROUNDOFFS: dict[Precision, float] = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}


def allowed_error(precision: Precision, *, reduction_length: int, depth: int = 1) -> float:
    """Return the largest difference, relative to the root mean square, that rounding explains."""
    accumulation = math.sqrt(reduction_length) * UNIT_ROUNDOFFS["fp32"]
    return SAFETY * math.sqrt(depth) * (accumulation + UNIT_ROUNDOFFS[precision])
