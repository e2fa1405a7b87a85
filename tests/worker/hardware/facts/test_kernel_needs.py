import pytest

from worker.hardware.facts.kernel_needs import describe_old_kernel


@pytest.mark.parametrize(
    ("gfx", "release", "is_old"),
    [
        ("gfx1151", "6.17.0-20-generic", True),
        ("gfx1151", "6.18.3-arch1", True),
        ("gfx1151", "6.18.4", False),
        ("gfx1151", "7.0.0-31-generic", False),
        ("gfx1151", "6.14.0-1018-oem", False),
        ("gfx1151", "6.14.0-1017-oem", True),
        ("gfx1151", None, False),
        ("gfx1100", "5.15.0", False),
        ("gfx9999", "5.15.0", False),
    ],
)
def test_a_kernel_without_the_fix_of_strix_halo_is_named(gfx, release, is_old):
    text = describe_old_kernel(gfx, release)

    assert (text is not None) == is_old
    if text:
        assert "6.18.4 or later" in text
        assert release in text
