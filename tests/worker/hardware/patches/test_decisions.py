"""Tables: GPU x versions x arch list -> what each patch does."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from redkiln.views.hardware import GpuFacts, SelfTestReport, SelfTestResult
from worker.hardware.facts.versions import parse_version
from worker.hardware.override import ProbeResult
from worker.hardware.patches import PATCHES, decide_all, merge_environment, merge_settings
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.gfx_override import find_candidate
from worker.hardware.patches.trials import Trial, load_trials, save_trial

CLASSIC = {"torch": "2.10.0+rocm7.2", "rocm": "7.2.26015-fc0010cf6a"}
THEROCK = {"torch": "2.13.0+rocm10.0", "rocm": "10.0.26300"}
WHEELS = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
PASSED = ProbeResult(verdict="passed", detail="product correct in a probe")
FAILED = ProbeResult(verdict="failed", detail="the probe crashed (signal 6)")
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def gpu(gfx, *, node=1, is_apu=False, **facts):
    return GpuFacts(gfx=gfx, node=node, is_apu=is_apu, **facts)


def facts_of(gfx, *, versions=CLASSIC, arch_list=WHEELS, **more):
    gpus = more.pop("gpus", (gpu(gfx),))
    return PatchFacts("rocm", gpus, arch_list=arch_list, **versions, **more)


def outcome(facts, name):
    return next(o for o in decide_all(facts) if o.name == name)


def trial(patch, *, ratio=0.8, is_right=True, num_pairs=9):
    return {
        patch: Trial(
            patch=patch, ratio=ratio, num_pairs=num_pairs, is_right=is_right, what="x", at=NOW
        )
    }


def self_test(area, *, library=None, verdict="failed"):
    result = SelfTestResult(
        area=area, precision="fp32", library=library, shape="1x1", reduction_length=1,
        tolerance=1e-5, verdict=verdict, seconds=0.1,
    )  # fmt: skip
    return (SelfTestReport(at=NOW, device="cuda:0", status="failed", results=[result]),)


@pytest.mark.parametrize(
    ("gfx", "versions", "arch_list", "probe", "wanted", "word"),
    [
        # The table's rule, and a child that proved it.
        ("gfx1031", CLASSIC, WHEELS, PASSED, "applied", "10.3.0"),
        ("gfx1032", CLASSIC, WHEELS, PASSED, "applied", "10.3.0"),
        ("gfx1036", CLASSIC, WHEELS, PASSED, "applied", "10.3.0"),
        ("gfx1102", CLASSIC, WHEELS, PASSED, "applied", "11.0.0"),
        ("gfx90c", CLASSIC, WHEELS, PASSED, "applied", "9.0.0"),
        # A rule and no proof.
        ("gfx1031", CLASSIC, WHEELS, None, "refused", "has not passed its probe"),
        ("gfx1031", CLASSIC, WHEELS, FAILED, "refused", "signal 6"),
        # ROCm's wheels by architecture: only with proof, and with the better remedy.
        ("gfx1031", THEROCK, ("gfx1030",), None, "refused", "torch[device-gfx1031]"),
        ("gfx1031", THEROCK, ("gfx1030",), PASSED, "applied", "10.3.0"),
        # Supported as they are.
        ("gfx1030", CLASSIC, WHEELS, PASSED, "refused", "torch has kernels for gfx1030"),
        ("gfx1100", CLASSIC, WHEELS, PASSED, "refused", "torch has kernels for gfx1100"),
        ("gfx1031", THEROCK, ("gfx1031",), PASSED, "refused", "torch has kernels for gfx1031"),
        ("gfx942", CLASSIC, WHEELS, PASSED, "refused", "torch has kernels for gfx942"),
        # No rule, or no kernels to use instead.
        ("gfx1010", CLASSIC, WHEELS, PASSED, "refused", "never 10.3.0"),
        ("gfx1012", CLASSIC, WHEELS, PASSED, "refused", "nor for its substitute gfx1010"),
        ("gfx1151", CLASSIC, WHEELS, PASSED, "refused", "gfx1151"),
        ("gfx803", CLASSIC, WHEELS, PASSED, "refused", "gfx803"),
        ("gfx1031", CLASSIC, ("gfx1100",), PASSED, "refused", "nor for its substitute gfx1030"),
        ("gfx9999", CLASSIC, WHEELS, PASSED, "refused", "not in the table"),
        ("gfx1031", CLASSIC, (), PASSED, "skipped", "does not report"),
    ],
)
def test_an_override_needs_a_rule_and_a_passed_probe(gfx, versions, arch_list, probe, wanted, word):
    probes = {gfx: probe} if probe else {}
    facts = facts_of(gfx, versions=versions, arch_list=arch_list, probes=probes)
    found = outcome(facts, "gfx_override")
    assert found.outcome == wanted
    assert word in found.why + str(found.environment)
    assert bool(found.environment) is (wanted == "applied")
    assert "HSA_OVERRIDE_GFX_VERSION" not in found.environment


def test_each_gpu_is_overridden_by_its_own_node():
    gpus = (gpu("gfx1031", node=2), gpu("gfx1031", node=3))
    found = outcome(facts_of("", gpus=gpus, probes={"gfx1031": PASSED}), "gfx_override")
    assert found.environment == {
        "HSA_OVERRIDE_GFX_VERSION_2": "10.3.0",
        "HSA_OVERRIDE_GFX_VERSION_3": "10.3.0",
    }


def test_without_a_node_nothing_can_be_overridden():
    facts = facts_of("", gpus=(gpu("gfx1031", node=None),), probes={"gfx1031": PASSED})
    assert "no KFD node" in outcome(facts, "gfx_override").why
    assert find_candidate(facts.gpus[0], facts) is None


def test_only_permitted_overrides_are_probed():
    facts = facts_of("gfx1031")
    assert find_candidate(facts.gpus[0], facts) == {"HSA_OVERRIDE_GFX_VERSION_1": "10.3.0"}
    supported = facts_of("gfx1100")
    assert find_candidate(supported.gpus[0], supported) is None


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
    ("gfx", "self_tests", "wanted", "versions"),
    [
        ("gfx1201", (), "applied", CLASSIC),
        ("gfx1201", (), "applied", {"torch": "2.12.0", "rocm": "7.13.0"}),
        ("gfx1201", (), "applied", {"torch": None, "rocm": None}),
        ("gfx1201", (), "skipped", {"torch": "2.12.0", "rocm": "7.14.0"}),
        ("gfx1201", (), "skipped", THEROCK),
        ("gfx1201", self_test("gemm", library="hipblaslt"), "applied", THEROCK),
        ("gfx1100", (), "skipped", CLASSIC),
        ("gfx1100", self_test("gemm_tall_skinny", library="hipblaslt"), "applied", CLASSIC),
        ("gfx1100", self_test("gemm", library="rocblas"), "skipped", CLASSIC),
        ("gfx1100", self_test("gemm", library="hipblaslt", verdict="passed"), "skipped", CLASSIC),
        ("gfx1030", (), "skipped", CLASSIC),
        ("gfx942", (), "skipped", CLASSIC),
    ],
)
def test_hipblaslt_is_avoided_only_where_it_is_wrong(gfx, self_tests, wanted, versions):
    facts = facts_of(gfx, self_tests=self_tests, versions=versions)
    off = {
        "TORCH_BLAS_PREFER_HIPBLASLT": "0",
        "DISABLE_ADDMM_CUDA_LT": "1",
        "ROCBLAS_USE_HIPBLASLT": "0",
    }
    in_torch = {"torch.backends.cuda.preferred_blas_library": "cublas"}
    found, twin = outcome(facts, "hipblaslt"), outcome(facts, "blas_library")
    assert (found.outcome, found.environment) == (wanted, off if wanted == "applied" else {})
    assert (twin.outcome, twin.settings) == (wanted, in_torch if wanted == "applied" else {})


@pytest.mark.parametrize(
    ("gfx", "self_tests", "wanted"),
    [
        ("gfx1201", (), "applied"),
        ("gfx1201", self_test("gemm_many_rows"), "applied"),
        ("gfx1201", self_test("gemm_many_rows", verdict="passed"), "skipped"),
        ("gfx1201", self_test("gemm", verdict="passed"), "applied"),  # an older report
        ("gfx1100", (), "skipped"),
        ("gfx1100", self_test("gemm_many_rows"), "applied"),
        ("gfx9999", (), "skipped"),
    ],
)
def test_products_of_many_rows_are_split_unless_they_were_found_right(gfx, self_tests, wanted):
    found = outcome(facts_of(gfx, versions=THEROCK, self_tests=self_tests), "product_rows")
    assert found.outcome == wanted
    split = {"redkiln.max_product_rows": "524288"}
    assert found.settings == (split if wanted == "applied" else {})


@pytest.mark.parametrize(
    ("gfx", "self_tests", "experimental", "plain"),
    [
        ("gfx1030", (), "skipped", "applied"),
        ("gfx1010", (), "skipped", "applied"),
        ("gfx1100", (), "skipped", "skipped"),
        ("gfx1150", (), "refused", "skipped"),
        ("gfx1151", (), "refused", "skipped"),
        ("gfx1102", (), "applied", "skipped"),
        ("gfx1103", (), "skipped", "applied"),
        ("gfx1102", self_test("attention_backward", library="flash"), "refused", "applied"),
        ("gfx90a", (), "skipped", "skipped"),
    ],
)
def test_attention_uses_the_available_kernels(gfx, self_tests, experimental, plain):
    facts = facts_of(gfx, versions=THEROCK, self_tests=self_tests)
    assert outcome(facts, "aotriton").outcome == experimental
    found = outcome(facts, "attention")
    assert found.outcome == plain
    wanted = "False" if plain == "applied" else None
    assert found.settings.get("torch.backends.cuda.enable_flash_sdp") == wanted


@pytest.mark.parametrize(
    ("gfx", "torch", "wanted"),
    [
        ("gfx1100", "2.13.0", "skipped"),
        ("gfx1100", "2.9.1", "applied"),
        ("gfx1201", "2.12.0", "applied"),
        ("gfx90a", "2.9.1", "skipped"),
        ("gfx1101", "2.13.0", "applied"),
    ],
)
def test_earlier_releases_had_more_attention_behind_the_switch(gfx, torch, wanted):
    facts = facts_of(gfx, versions={"torch": torch, "rocm": "7.2.1"})
    assert outcome(facts, "aotriton").outcome == wanted


@pytest.mark.parametrize(
    ("trials", "has_tunings", "wanted", "tuning"),
    [
        ({}, False, "skipped", None),
        (trial("tunableop"), False, "applied", "1"),
        (trial("tunableop"), True, "applied", "0"),
        (trial("tunableop", ratio=0.99), False, "skipped", None),
        (trial("tunableop", num_pairs=2), False, "skipped", None),
        (trial("tunableop", is_right=False), False, "refused", None),
    ],
)
def test_tunableop_is_off_unless_it_has_won(trials, has_tunings, wanted, tuning):
    facts = facts_of("gfx1100", trials=trials, has_tunings=has_tunings, cache_dir=Path("/cache"))
    found = outcome(facts, "tunableop")
    assert found.outcome == wanted
    assert found.environment.get("PYTORCH_TUNABLEOP_TUNING") == tuning
    if tuning:
        assert found.environment["PYTORCH_TUNABLEOP_FILENAME"] == "/cache/tunableop%d.csv"


def test_miopen_is_avoided_only_if_the_rest_is_right():
    refused, right = (
        self_test("convolution_forward", library=library, verdict=verdict)[0].results[0]
        for library, verdict in ((None, "error"), ("without MIOpen", "passed"))
    )
    refused = refused.model_copy(update={"error": "miopenStatusUnknownError"})
    off = {"torch.backends.cudnn.enabled": "False"}
    for results, wanted in (([refused, right], off), ([refused], {}), ([], {})):
        report = SelfTestReport(at=NOW, device="cuda:0", status="failed", results=results)
        found = outcome(facts_of("gfx1151", self_tests=(report,)), "miopen")
        assert found.settings == wanted


def test_tuning_leaves_hipblaslt_out_where_it_is_wrong():
    names = {}
    for gfx in ("gfx1100", "gfx1201"):
        facts = facts_of(gfx, trials=trial("tunableop"), cache_dir=Path("/cache"))
        names[gfx] = outcome(facts, "tunableop").environment
    assert names["gfx1201"]["PYTORCH_TUNABLEOP_HIPBLASLT_ENABLED"] == "0"
    assert "PYTORCH_TUNABLEOP_HIPBLASLT_ENABLED" not in names["gfx1100"]


@pytest.mark.parametrize(
    ("gfx", "wanted"),
    [("gfx1010", "applied"), ("gfx1012", "applied"), ("gfx1030", "skipped"), ("gfx9", "skipped")],
)
def test_triton_compiles_without_buffer_instructions_on_rdna1(gfx, wanted):
    facts = facts_of(gfx, cache_dir=Path("/cache"))
    found = outcome(facts, "triton_buffer_ops")
    assert found.outcome == wanted
    assert found.environment == ({"AMDGCN_USE_BUFFER_OPS": "0"} if wanted == "applied" else {})
    folders = outcome(facts, "kernel_caches").environment
    own = "-no-buffer-ops" if wanted == "applied" else ""
    assert folders["TRITON_CACHE_DIR"] == f"/cache/triton{own}"
    assert folders["TORCHINDUCTOR_CACHE_DIR"] == f"/cache/inductor{own}"
    assert folders["MIOPEN_USER_DB_PATH"] == "/cache/miopen"


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


@pytest.mark.parametrize(
    ("gfx", "is_apu", "wanted"),
    [("gfx942", False, "applied"), ("gfx942", True, "skipped"), ("gfx1100", False, "skipped")],
)
def test_kernel_arguments_are_on_the_device_for_instinct_accelerators(gfx, is_apu, wanted):
    facts = facts_of("", gpus=(gpu(gfx, is_apu=is_apu),))
    assert outcome(facts, "kernel_arguments").outcome == wanted


@pytest.mark.parametrize(
    ("has_fixed_shapes", "wanted"), [(True, "applied"), (False, "skipped"), (None, "skipped")]
)
def test_convolutions_are_searched_for_if_shapes_are_fixed(has_fixed_shapes, wanted):
    facts = facts_of("gfx1100", has_fixed_shapes=has_fixed_shapes)
    assert outcome(facts, "convolution_search").outcome == wanted


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
