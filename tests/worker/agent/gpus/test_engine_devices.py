"""Which devices a worker offers for other engines than torch."""

import pytest

from worker.agent.gpus.engine_devices import describe_devices, offer_engines
from worker.hardware.facts.vulkan import DisplayCard, VulkanDevice

RADEON = VulkanDevice("RX 580", "DISCRETE_GPU", 0x1002, 0x67DF, "radv Mesa 25.2.0")
SOFTWARE = VulkanDevice("llvmpipe", "CPU", 0x10005, 0, "llvmpipe")
CARD = DisplayCard("0000:04:00.0", 0x8086, 0x56A0)


@pytest.mark.parametrize(
    ("pair", "options", "why"),
    [
        ((RADEON, CARD), {}, None),
        ((SOFTWARE, None), {}, "runs on the CPU"),
        ((SOFTWARE, None), {"wanted": "software"}, None),
        ((None, CARD), {}, "no Vulkan driver"),
        ((RADEON, CARD), {"has_packages": False}, "pip install -e"),
        ((RADEON, CARD), {"has_torch_gpu": True}, "trains with torch"),
    ],
)
def test_a_device_is_offered_or_the_reason_is_reported(pair, options, why):
    given = {"wanted": "auto", "has_packages": True, "has_torch_gpu": False, **options}
    (device,) = describe_devices([pair], **given)
    assert (device.excluded is None) if why is None else (why in device.excluded)
    expected = ["timm", "tinygrad"] if why is None else ["timm"]
    assert offer_engines(["timm", "tinygrad"], [device]) == expected


def test_nothing_is_listed_if_vulkan_is_off():
    given = {"wanted": "off", "has_packages": True, "has_torch_gpu": False}
    assert describe_devices([(RADEON, None)], **given) == []
