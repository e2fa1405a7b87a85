import pytest

from redkiln.views.hardware import PatchOutcome
from worker.agent.attempt.first_search import describe_first_search
from worker.hardware.kernel_cache import FIRST_STEPS_RECORD

SEARCH = PatchOutcome(
    name="convolution_search",
    outcome="applied",
    why="",
    settings={"torch.backends.cudnn.benchmark": "True"},
)


def caches(folder, *, name="MIOPEN_USER_DB_PATH"):
    environment = {name: str(folder)}
    return PatchOutcome(name="kernel_caches", outcome="applied", why="", environment=environment)


def describe(patches, tmp_path):
    return describe_first_search(patches, cache_dir=tmp_path, stall_seconds=600.0)


def test_the_limit_is_reported_before_the_first_search(tmp_path):
    text = describe([SEARCH, caches(tmp_path / "miopen")], tmp_path)

    assert "30 minutes" in text
    assert "neither an event nor a file of kernels for 600 s" in text
    assert str(tmp_path) in text


def test_kernels_of_the_self_test_do_not_hide_the_search_of_the_first_job(tmp_path):
    folder = tmp_path / "miopen"
    folder.mkdir()
    (folder / "gfx1100.ukdb").touch()
    assert describe([SEARCH, caches(folder)], tmp_path) is not None


def test_later_jobs_get_no_message(tmp_path):
    (tmp_path / FIRST_STEPS_RECORD).write_text("{}")
    assert describe([SEARCH, caches(tmp_path / "miopen")], tmp_path) is None


@pytest.mark.parametrize(
    "patches",
    [
        [],
        [SEARCH],
        [SEARCH, caches("/none", name="TRITON_CACHE_DIR")],
        [SEARCH.model_copy(update={"settings": {}}), caches("/none")],
    ],
)
def test_without_miopens_search_there_is_no_message(patches, tmp_path):
    assert describe(patches, tmp_path) is None
