import pytest

from redkiln.spec.job_spec import Resources
from service.workers.eligibility import (
    Machine,
    devices_for,
    find_missing,
    find_obstacle,
    find_unsuited,
    fits,
    has_only_vulkan,
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
    ("spec", "needed"),
    [
        ({"training": {"compile": "default"}}, {"compiler"}),
        ({"training": {"compile": "auto"}}, set()),
        ({"export": {"variants": [{"name": "fp16"}, {"name": "int8-qat"}]}}, {"torchao"}),
        ({"export": {"variants": [{"name": "int8-static"}]}}, set()),
        (
            {"model": {"source": "timm"}, "training": {"compile": "default"}},
            TIMM | {"compiler"},
        ),
    ],
)
def test_a_job_needs_a_compiler_or_torchao_only_if_it_asks_for_it(spec, needed):
    assert list_needed(spec) == needed


@pytest.mark.parametrize(
    ("needed", "packages", "pointers"),
    [
        (TIMM, [], []),
        (TIMM, [None], []),
        (TIMM, [TIMM], []),
        (TIMM, [frozenset(), TIMM], []),
        (TIMM, [frozenset()], ["/model/source"]),
        (TIMM, [frozenset({"timm"})], ["/model/source"]),
        (TIMM, [frozenset({"timm"}), frozenset({"torchvision"})], ["/model/source"]),
        ({"compiler"}, [frozenset({"timm"})], ["/training/compile"]),
        ({"torchao"}, [frozenset()], ["/export/variants"]),
        (TIMM | {"compiler"}, [TIMM], ["/training/compile"]),
        (
            TIMM | {"compiler"},
            [TIMM, frozenset({"compiler"})],  # each lacks something else
            ["/model/source", "/training/compile"],
        ),
        (frozenset(), [frozenset()], []),
    ],
)
def test_a_job_whose_needs_no_live_worker_has_is_refused(needed, packages, pointers):
    machines = [Machine(packages=names) for names in packages]
    problems = find_missing(frozenset(needed), machines)
    assert [problem.pointer for problem in problems] == pointers
    assert all("no live worker has" in problem.message for problem in problems)


def test_the_message_names_all_packages_of_a_need():
    (problem,) = find_missing(TIMM, [Machine(packages=frozenset())])
    assert "timm and torchvision" in problem.message


OLD, NEW = ("gfx1030", False), ("gfx1100", True)


@pytest.mark.parametrize(
    ("precision", "resources", "gpus", "is_refused"),
    [
        ("bf16", {"device": "any"}, [OLD], True),
        ("bf16", {"device": "gpu"}, [OLD, ("gfx906", False)], True),
        ("bf16", {"device": "gpu"}, [OLD, NEW], False),
        ("bf16", {"device": "gpu", "arch": ["gfx1030"]}, [OLD, NEW], True),
        ("bf16", {"device": "cpu"}, [OLD], False),
        ("bf16", {"device": "any"}, [], False),
        ("bf16", {"device": "gpu"}, [("gfx1030", None)], False),  # the worker does not say
        ("fp16", {"device": "gpu"}, [OLD], False),
        ("auto", {"device": "gpu"}, [OLD], False),
    ],
)
def test_bf16_is_refused_where_no_live_gpu_trains_in_it(precision, resources, gpus, is_refused):
    machines = [Machine((arch,), has_bf16=(has_bf16,)) for arch, has_bf16 in gpus]
    spec = {"training": {"precision": precision}, "resources": resources}
    problem = find_unsuited(spec, [CPU, *machines])
    assert (problem is not None) == is_refused
    if problem:
        assert problem.pointer == "/training/precision"
        assert "gfx1030" in problem.message
        assert "gfx1100" not in problem.message


def test_a_job_of_tinygrad_needs_a_worker_with_a_vulkan_device():
    needed = list_needed({"resources": {"engine": "tinygrad"}})
    assert needed == frozenset({"tinygrad"})
    assert list_needed({"resources": {"engine": "auto"}}) == frozenset()
    (problem,) = find_missing(needed, [Machine(packages=frozenset())])
    assert (problem.pointer, problem.code) == ("/resources/engine", "no_such_engine")
    assert find_missing(needed, [Machine(packages=needed)]) == []


VULKAN = Machine(packages=frozenset({"tinygrad"}))


@pytest.mark.parametrize(
    ("resources", "machines", "is_so"),
    [
        ({}, [VULKAN], True),
        ({}, [CPU, VULKAN], True),
        ({}, [VULKAN, RX7900], False),
        ({}, [VULKAN, BROKEN], False),
        ({}, [CPU], False),
        ({"engine": "torch"}, [VULKAN], False),
        ({"engine": "tinygrad"}, [VULKAN], False),
        ({"device": "cpu"}, [VULKAN], False),
        ({"gpus": 2}, [VULKAN], False),
    ],
)
def test_an_open_job_is_told_of_vulkan_only_if_torch_has_no_gpu(resources, machines, is_so):
    assert has_only_vulkan(Resources(**resources), machines) is is_so


def test_a_job_for_a_gpu_is_told_of_tinygrad_where_only_that_has_one():
    obstacle = find_obstacle(Resources(device="gpu"), [VULKAN])
    assert "set engine to tinygrad" in obstacle.message
    assert "tinygrad" not in find_obstacle(Resources(device="gpu"), [CPU]).message
    assert "tinygrad" not in find_obstacle(Resources(device="gpu"), [VULKAN, BROKEN]).message


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
