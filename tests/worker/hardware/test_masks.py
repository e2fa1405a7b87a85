import pytest

from redkiln.views.hardware import GpuFacts
from worker.hardware.masks import list_offered, pick_visible, show_alone

GPUS = [
    GpuFacts(gfx="gfx1031", node=1, uuid="GPU-aa", is_apu=False),
    GpuFacts(gfx="gfx1100", node=2, uuid="GPU-bb", is_apu=False),
    GpuFacts(gfx="gfx1036", node=3, is_apu=True),
]


@pytest.mark.parametrize(
    ("environ", "places"),
    [
        ({}, [0, 1, 2]),
        ({"ROCR_VISIBLE_DEVICES": "1,0"}, [1, 0]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-BB"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, [2]),
        ({"CUDA_VISIBLE_DEVICES": "0"}, [0]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"HIP_VISIBLE_DEVICES": "7"}, []),
    ],
)
def test_masks_are_applied_as_the_runtime_does(environ, places):
    assert pick_visible(GPUS, environ) == [GPUS[place] for place in places]


def test_gpus_that_the_runtime_cannot_open_have_no_index():
    denied, card_only = GpuFacts(node=0, is_accessible=False), GpuFacts(gfx="gfx1030")
    offered = list_offered([denied, *GPUS, card_only])
    assert offered == GPUS
    assert show_alone(GPUS[2], {}, offered=offered) == {"ROCR_VISIBLE_DEVICES": "2"}


def test_one_mask_shows_one_gpu_and_other_variables_are_kept():
    environ = {"HIP_VISIBLE_DEVICES": "1", "ROCR_VISIBLE_DEVICES": "0", "PATH": "/bin"}
    shown = show_alone(GPUS[1], environ, offered=GPUS)
    assert shown == {"PATH": "/bin", "ROCR_VISIBLE_DEVICES": "GPU-bb"}
