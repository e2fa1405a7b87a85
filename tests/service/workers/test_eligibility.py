import pytest

from redkiln.spec.job_spec import Resources
from service.workers.eligibility import (
    Machine,
    devices_for,
    find_missing,
    find_obstacle,
    fits,
    has_packages,
    holds_back,
    list_needed,
)

CPU = Machine()
RX7900 = Machine(("gfx1100",))
NAMELESS = Machine((None,))
BROKEN = Machine((), ("RX 7900 of bench: it computes wrong numbers",))
MIXED = Machine(("gfx1100", "gfx1100", "gfx1201"))


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
        ({"device": "gpu", "gpus": 2}, [RX7900], "/resources/gpus"),
        ({"device": "gpu", "gpus": 2}, [RX7900, MIXED], None),
        ({"device": "gpu", "gpus": 3}, [MIXED], "/resources/gpus"),
        ({"device": "gpu", "gpus": 2, "arch": ["gfx1201"]}, [MIXED], "/resources/gpus"),
        ({"device": "gpu", "gpus": 2}, [RX7900, RX7900], "/resources/gpus"),
        ({"device": "any", "gpus": 2}, [CPU], None),
        ({"device": "gpu", "gpus": 2}, [], None),
        ({"device": "gpu"}, [BROKEN], "/resources/device"),
        ({"device": "any"}, [BROKEN, CPU], None),
        ({"device": "any"}, [BROKEN, RX7900], None),
        ({"device": "cpu"}, [BROKEN], None),
    ],
)
def test_a_job_that_no_live_worker_can_run_is_refused_with_a_pointer(resources, machines, pointer):
    obstacle = find_obstacle(Resources(**resources), machines)
    assert (obstacle.pointer if obstacle else None) == pointer


TIMM = frozenset({"timm", "torchvision"})


def test_only_models_of_timm_need_its_packages():
    assert list_needed({"model": {"name": "x", "source": "timm"}}) == TIMM
    assert list_needed({"model": {"name": "resnet18", "source": "builtin"}}) == frozenset()
    assert list_needed({"task": "script"}) == frozenset()
    assert list_needed({"model": "resnet18"}) == frozenset()


@pytest.mark.parametrize(
    ("packages", "is_missing"),
    [
        ([], False),
        ([None], False),
        ([TIMM], False),
        ([frozenset(), TIMM], False),
        ([frozenset()], True),
        ([frozenset({"timm"})], True),
        ([frozenset({"timm"}), frozenset({"torchvision"})], True),
    ],
)
def test_a_model_whose_packages_no_live_worker_has_is_refused(packages, is_missing):
    machines = [Machine(packages=names) for names in packages]
    problem = find_missing(TIMM, machines)
    assert (problem is not None) == is_missing
    if problem:
        assert problem.pointer == "/model/source"
        assert "timm and torchvision" in problem.message
    assert find_missing(frozenset(), machines) is None


def test_a_job_of_tinygrad_needs_a_worker_with_a_vulkan_device():
    needed = list_needed({"resources": {"engine": "tinygrad"}})
    assert needed == frozenset({"tinygrad"})
    assert list_needed({"resources": {"engine": "auto"}}) == frozenset()
    problem = find_missing(needed, [Machine(packages=frozenset())])
    assert (problem.pointer, problem.code) == ("/resources/engine", "no_such_engine")
    assert find_missing(needed, [Machine(packages=needed)]) is None


def test_a_job_of_tinygrad_ignores_gpus_of_torch():
    resources = Resources(engine="tinygrad")
    assert find_obstacle(resources, [BROKEN]) is None
    assert fits(resources.model_dump(), slots=["cpu"], arches=[])


def test_a_worker_gets_only_jobs_whose_packages_it_has():
    assert has_packages(TIMM, ["timm", "torchvision"])
    assert has_packages(TIMM, None)
    assert not has_packages(TIMM, [])


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
def test_any_means_a_cpu_only_if_no_live_worker_has_a_gpu(slots, any_live_gpu, devices):
    assert devices_for(slots, any_live_gpu=any_live_gpu) == devices


@pytest.mark.parametrize(
    ("resources", "slots", "arches", "is_fit"),
    [
        ({"device": "gpu"}, ["gpu"], ["gfx1100"], True),
        ({"device": "gpu"}, ["gpu"], [""], True),
        ({"device": "gpu", "arch": ["gfx1100"]}, ["gpu"], ["gfx1100"], True),
        ({"device": "gpu", "arch": ["gfx942"]}, ["gpu"], ["gfx1100"], False),
        ({"device": "any", "arch": ["gfx942"]}, ["gpu"], ["gfx1100"], False),
        ({"device": "any", "arch": ["gfx942"]}, ["cpu"], [], True),
        ({"device": "cpu", "arch": ["gfx942"]}, ["gpu"], ["gfx1100"], True),
        ({"device": "gpu", "arch": ["gfx942"]}, ["cpu"], [], False),
        ({"device": "gpu", "gpus": 2}, ["gpu"], ["gfx1100"], False),
        ({"device": "gpu", "gpus": 2}, ["gpu"], ["gfx1100", "gfx1201"], False),
        ({"device": "gpu", "gpus": 2}, ["gpu"], ["gfx1100", "gfx1201", "gfx1100"], True),
        ({"device": "any", "gpus": 2}, ["cpu"], [], True),
    ],
)
def test_free_slots_run_jobs_that_fit_their_gpus(resources, slots, arches, is_fit):
    asked = Resources(**resources).model_dump(mode="json")
    assert fits(asked, slots=slots, arches=arches) is is_fit


def test_a_spec_older_than_the_field_gpus_asks_for_one():
    assert fits({"device": "gpu", "arch": []}, slots=["gpu"], arches=["gfx1100"])


@pytest.mark.parametrize(
    ("resources", "waited_seconds", "usable", "does"),
    [
        ({"gpus": 2}, 60, ["gfx1100", "gfx1100"], True),
        ({"gpus": 2}, 59, ["gfx1100", "gfx1100"], False),
        ({"gpus": 2}, 60, ["gfx1100", "gfx1201"], False),
        ({"gpus": 2, "arch": ["gfx1201"]}, 60, ["gfx1100", "gfx1100"], False),
        ({"gpus": 1}, 3600, ["gfx1100"], False),
    ],
)
def test_a_job_of_several_gpus_is_not_overtaken_for_ever(resources, waited_seconds, usable, does):
    asked = Resources(**resources).model_dump(mode="json")
    assert holds_back(asked, waited_seconds=waited_seconds, usable=usable) is does
