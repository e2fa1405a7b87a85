"""Which libraries and kernels compute on which GPU."""

from pathlib import Path

import pytest

from redkiln.views.self_test import SelfTestReport
from tests.worker.hardware.patches.cases import (
    CLASSIC,
    NOW,
    THEROCK,
    facts_of,
    outcome,
    self_test,
    trial,
)


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


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        ({"ENABLED": "1"}, {"NUMERICAL_CHECK", "HIPBLASLT_ENABLED"}),
        ({"ENABLED": "1", "NUMERICAL_CHECK": "1e-3_1e-3"}, {"HIPBLASLT_ENABLED"}),
        ({"ENABLED": "0"}, set()),
        ({"FILENAME": "mine.csv"}, set()),
    ],
)
def test_a_tuning_that_the_user_enabled_is_guarded(user, wanted):
    mine = {f"PYTORCH_TUNABLEOP_{name}": value for name, value in user.items()}
    versions = {"torch": "2.11.0", "rocm": "7.2.1"}
    found = outcome(facts_of("gfx1201", versions=versions, user=mine), "tunableop")
    assert set(found.environment) == {f"PYTORCH_TUNABLEOP_{name}" for name in wanted}
    assert found.user == mine


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
    checks = {each["PYTORCH_TUNABLEOP_NUMERICAL_CHECK"] for each in names.values()}
    assert checks == {"1e-2_1e-2"}


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
    ("has_fixed_shapes", "wanted"), [(True, "applied"), (False, "skipped"), (None, "skipped")]
)
def test_convolutions_are_searched_for_if_shapes_are_fixed(has_fixed_shapes, wanted):
    facts = facts_of("gfx1100", has_fixed_shapes=has_fixed_shapes)
    assert outcome(facts, "convolution_search").outcome == wanted
