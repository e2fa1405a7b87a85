"""Tables: GPU x versions x arch list -> what the other patches do, and what all have in common."""

from pathlib import Path

import pytest

from tests.worker.hardware.patches.cases import (
    CLASSIC,
    FAILED,
    PASSED,
    THEROCK,
    facts_of,
    gpu,
    outcome,
    trial,
)
from worker.hardware.facts.targets import find_target, load_targets
from worker.hardware.facts.versions import parse_version
from worker.hardware.patches import PATCHES, decide_all, merge_environment, merge_settings
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.trials import load_trials, save_trial


@pytest.mark.parametrize(
    ("gfx", "precision", "has_bf16"),
    [
        ("gfx906", "fp16", False),
        ("gfx1010", "fp16", False),
        ("gfx1030", "fp16", False),
        ("gfx1032", "fp16", False),
        ("gfx1100", "bf16", True),
        ("gfx1151", "bf16", True),
        ("gfx1201", "bf16", True),
        ("gfx90a", "bf16", True),
        ("gfx942", "bf16", True),
    ],
)
def test_precision_follows_the_table(gfx, precision, has_bf16):
    found = outcome(facts_of(gfx), "precision")
    assert f"{gfx}: auto is {precision}" in found.why
    assert ("bf16 is refused" in found.why) is not has_bf16


@pytest.mark.parametrize(
    ("gfx_names", "wanted"),
    [
        (("gfx1201", "gfx1201"), "applied"),
        (("gfx1200", "gfx1100"), "applied"),
        (("gfx1201",), "skipped"),
        (("gfx1100", "gfx1100"), "skipped"),
        (("gfx942", "gfx942"), "skipped"),
    ],
)
def test_rdna4_cards_do_not_write_to_each_other(gfx_names, wanted):
    gpus = tuple(gpu(gfx, node=node) for node, gfx in enumerate(gfx_names, start=1))
    found = outcome(facts_of("", gpus=gpus), "peer_to_peer")
    assert found.outcome == wanted
    assert found.environment == ({"NCCL_P2P_DISABLE": "1"} if wanted == "applied" else {})


@pytest.mark.parametrize(
    ("gfx", "trials", "wanted"),
    [
        ("gfx90a", {}, "applied"),
        ("gfx942", trial("channels_last", ratio=1.2), "skipped"),
        ("gfx1100", {}, "skipped"),
        ("gfx1100", trial("channels_last"), "applied"),
        ("gfx1100", trial("channels_last", ratio=0.98), "skipped"),
        ("gfx9999", {}, "skipped"),
    ],
)
def test_channels_last_is_for_cdna_or_measured(gfx, trials, wanted):
    found = outcome(facts_of(gfx, trials=trials), "channels_last")
    assert found.outcome == wanted
    assert set(found.environment.values()) == ({"1"} if wanted == "applied" else set())


@pytest.mark.parametrize(
    ("torch", "is_apu", "user", "value"),
    [
        ("2.14.1", False, {}, "garbage_collection_threshold:0.8"),
        ("2.13.0", False, {}, "garbage_collection_threshold:0.8"),
        ("2.9.1", False, {}, "garbage_collection_threshold:0.8"),
        ("2.13.0", True, {}, None),
        ("2.13.0", None, {}, None),
        ("2.9.1", False, {"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:128"},
         "max_split_size_mb:128"),
        ("2.13.0", False, {"PYTORCH_ALLOC_CONF": "a:1", "PYTORCH_CUDA_ALLOC_CONF": "a:2"}, None),
    ],
)  # fmt: skip
def test_the_allocator_has_one_value_under_every_name(torch, is_apu, user, value):
    versions = {"torch": torch, "rocm": "10.0.1"}
    facts = facts_of("", versions=versions, gpus=(gpu("gfx1100", is_apu=is_apu),), user=user)
    merged = {**user, **outcome(facts, "allocator").environment}
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    assert {merged.get(name) for name in names} == {value} or len(set(user.values())) > 1


@pytest.mark.parametrize("gfx", load_targets())
def test_expandable_segments_are_set_for_no_target_of_the_table(gfx):
    """The first copy hangs with them, or live memory reads as zeros (pytorch/pytorch#192259)."""
    facts = facts_of(gfx, versions=THEROCK, segment_probes={"node-1": PASSED})
    assert "expandable" not in str(merge_environment(decide_all(facts)))


@pytest.mark.parametrize(
    ("since", "probe", "more", "is_set"),
    [
        ("10.0", PASSED, {}, True),
        ("10.0", FAILED, {}, False),
        ("10.0", None, {}, False),
        ("10.1", PASSED, {}, False),
        (None, PASSED, {}, False),
        ("10.0", PASSED, {"gpus": (gpu("gfx1100", is_apu=True),)}, False),
        ("10.0", PASSED, {"versions": {"torch": "2.13", "rocm": None}}, False),
        ("10.0", PASSED, {"user": {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}}, False),
    ],
)
def test_expandable_segments_need_a_named_release_and_a_probe_on_that_card(
    monkeypatch, since, probe, more, is_set
):
    row = find_target("gfx1100").model_copy(update={"expandable_since": since})
    monkeypatch.setattr("worker.hardware.patches.facts.find_target", lambda _: row)
    probes = {} if probe is None else {"node-1": probe}
    facts = facts_of("gfx1100", **{"versions": THEROCK, "segment_probes": probes} | more)
    value = merge_environment(decide_all(facts)).get("PYTORCH_ALLOC_CONF", "")
    assert ("expandable_segments:True" in value) == is_set


@pytest.mark.parametrize(
    ("gfx", "is_apu", "wanted"),
    [("gfx942", False, "applied"), ("gfx942", True, "skipped"), ("gfx1100", False, "skipped")],
)
def test_kernel_arguments_are_on_the_device_for_instinct_accelerators(gfx, is_apu, wanted):
    facts = facts_of("", gpus=(gpu(gfx, is_apu=is_apu),))
    assert outcome(facts, "kernel_arguments").outcome == wanted


@pytest.mark.parametrize("gfx", ["gfx1300", None])
def test_nothing_is_guessed_about_an_unknown_target(gfx):
    facts = facts_of(gfx)
    for name in ("hipblaslt", "aotriton"):
        assert "the target is not in the table" in outcome(facts, name).why
    assert outcome(facts, "attention").settings == {}


def test_the_users_settings_are_kept_and_shown():
    user = {
        "HSA_OVERRIDE_GFX_VERSION": "10.3.0",
        "MIOPEN_LOG_LEVEL": "5",
        "TORCH_BLAS_PREFER_HIPBLASLT": "1",
        "TRITON_CACHE_DIR": "/mine",
        "PATH": "/bin",
    }
    facts = facts_of("gfx1201", user=user, cache_dir=Path("/cache"))
    outcomes = {o.name: o for o in decide_all(facts)}
    for name in ("gfx_override", "miopen_log", "hipblaslt", "blas_library"):
        assert outcomes[name].outcome == "user", name
        assert (outcomes[name].environment, outcomes[name].settings) == ({}, {})
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in outcomes["gfx_override"].why
    assert "could only break it" in outcomes["gfx_override"].why
    assert outcomes["kernel_caches"].outcome == "applied"
    assert "MIOPEN_USER_DB_PATH" in outcomes["kernel_caches"].environment
    assert not set(merge_environment(list(outcomes.values()))) & set(user)


@pytest.mark.parametrize(("backend", "what"), [("cpu", "no GPU"), ("cuda", "no AMD GPU")])
def test_without_an_amd_gpu_the_other_patches_share_one_line(backend, what):
    facts = PatchFacts(backend, cache_dir=Path("/cache"), has_fixed_shapes=True)
    outcomes = decide_all(facts)
    assert len(outcomes) <= 3
    assert outcomes[-1].name == "others"
    assert what in outcomes[-1].why
    assert f"the other {len(PATCHES) - len(outcomes) + 1} patches" in outcomes[-1].why
    assert not any(name.startswith("MIOPEN") for name in merge_environment(outcomes))
    assert bool(merge_settings(outcomes)) is (backend == "cuda")


@pytest.mark.parametrize("gfx", ["gfx1030", "gfx1100", "gfx1201", "gfx942", "gfx9999"])
@pytest.mark.parametrize("versions", [CLASSIC, THEROCK, {"torch": None, "rocm": None}])
def test_every_patch_gives_its_reason_and_versions(gfx, versions):
    for found in decide_all(facts_of(gfx, versions=versions)):
        assert found.why
        if found.name != "others":
            assert found.versions == {"torch": versions["torch"], "rocm": versions["rocm"]}


def test_trials_are_stored_by_patch(tmp_path):
    assert load_trials(tmp_path) == {}
    first, second = trial("tunableop")["tunableop"], trial("channels_last")["channels_last"]
    save_trial(tmp_path / "a", first)
    save_trial(tmp_path / "a", second)
    save_trial(tmp_path / "a", first.model_copy(update={"ratio": 0.5}))
    assert {n: t.ratio for n, t in load_trials(tmp_path / "a").items()} == {
        "tunableop": 0.5,
        "channels_last": 0.8,
    }
    (tmp_path / "a" / "trials.json").write_text("{")
    assert load_trials(tmp_path / "a") == {}


@pytest.mark.parametrize(
    ("text", "version"),
    [("7.2.26015-fc0010cf6a", (7, 2)), ("2.13.0+rocm10.0", (2, 13)), ("git", (0, 0))],
)
def test_versions_are_compared_numerically(text, version):
    assert parse_version(text) == version
