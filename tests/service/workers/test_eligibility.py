import pytest

from redkiln.spec import Resources
from service.workers.eligibility import Machine, devices_for, find_obstacle, fits_arch

CPU = Machine(0)
RX7900 = Machine(1, frozenset({"gfx1100"}))
NAMELESS = Machine(1, frozenset({None}))


@pytest.mark.parametrize(
    ("resources", "machines", "pointer"),
    [
        ({"device": "gpu"}, [], None),
        ({"device": "gpu"}, [CPU], "/resources/device"),
        ({"device": "gpu"}, [CPU, RX7900], None),
        ({"device": "any"}, [CPU], None),
        ({"device": "cpu"}, [RX7900], None),
        ({"device": "gpu", "arch": ["gfx1100"]}, [RX7900], None),
        ({"device": "gpu", "arch": ["gfx942"]}, [RX7900], "/resources/arch"),
        ({"device": "gpu", "arch": ["gfx942"]}, [CPU], "/resources/device"),
        ({"device": "any", "arch": ["gfx942"]}, [RX7900], "/resources/arch"),
        ({"device": "any", "arch": ["gfx942"]}, [CPU], None),
        ({"device": "cpu", "arch": ["gfx942"]}, [CPU, RX7900], None),
        ({"device": "gpu", "arch": ["gfx942"]}, [NAMELESS], "/resources/arch"),
    ],
)
def test_a_job_that_no_live_worker_could_ever_run_is_told_where(resources, machines, pointer):
    obstacle = find_obstacle(Resources(**resources), machines)
    assert (obstacle.pointer if obstacle else None) == pointer


@pytest.mark.parametrize(
    ("slots", "any_live_gpu", "devices"),
    [
        ([], False, set()),
        (["cpu"], False, {"cpu", "any"}),
        (["cpu"], True, {"cpu"}),
        (["gpu"], True, {"gpu", "any"}),
        (["gpu", "cpu"], True, {"gpu", "any", "cpu"}),
    ],
)
def test_any_means_a_cpu_only_where_no_live_worker_has_a_gpu(slots, any_live_gpu, devices):
    assert devices_for(slots, any_live_gpu=any_live_gpu) == devices


@pytest.mark.parametrize(
    ("wanted", "device", "slots", "arches", "fits"),
    [
        ([], "gpu", ["gpu"], ["gfx1100"], True),
        (["gfx1100"], "gpu", ["gpu"], ["gfx1100"], True),
        (["gfx942"], "gpu", ["gpu"], ["gfx1100"], False),
        (["gfx942"], "any", ["gpu"], ["gfx1100"], False),
        (["gfx942"], "any", ["cpu"], [], True),
        (["gfx942"], "cpu", ["cpu"], [], True),
        (["gfx942"], "gpu", ["cpu"], [], False),
    ],
)
def test_an_architecture_is_asked_of_gpus_alone(wanted, device, slots, arches, fits):
    assert fits_arch(wanted, device=device, slots=slots, arches=arches) is fits
