import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest

from docker.requirements import (
    TORCH_FAMILY,
    Unlocked,
    add_hashes,
    read_constraints,
    read_hashes,
    read_name,
    select_general,
    select_pins,
    select_wanted,
    verify,
)

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ["numpy==2.4.6", "onnx_ir==1.1.0", "pillow==13.0.0", "torch==2.13.0", ""]
BASE = {"torch": "2.13.0+rocm10.0.0", "triton": "3.9.0", "numpy": "2.3.1", "pillow": "11.0.0"}


@pytest.mark.parametrize(
    ("line", "name"),
    [("onnx_ir==1.1.0", "onnx-ir"), ("celery[redis]>=5.7", "celery"), ("Mako", "mako"), ("", "")],
)
def test_names_are_compared_as_the_index_compares_them(line, name):
    assert read_name(line) == name


@pytest.mark.parametrize("extra", ["service", "worker"])
def test_no_image_requires_torch(extra):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {read_name(line) for line in select_wanted(project, [extra])}
    assert "celery" in names
    assert "pydantic" in names
    assert "torch" not in names


def test_an_image_installs_the_extras_that_were_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = set(select_wanted(project, ["worker", "mlflow"])) - set(
        select_wanted(project, ["worker"])
    )
    assert {read_name(line) for line in extra} == {"mlflow-skinny"}


def test_before_the_dry_run_only_missing_packages_and_torch_are_pinned():
    assert select_pins(CONSTRAINTS, BASE, None) == [
        "onnx_ir==1.1.0",
        "torch==2.13.0+rocm10.0.0",
        "triton==3.9.0",
    ]


def test_outdated_packages_of_the_base_are_replaced_by_the_versions_of_ci():
    planned = {"onnx-ir", "pillow"}
    pins = select_pins(CONSTRAINTS, BASE, planned)
    assert "pillow==13.0.0" in pins
    assert not any(pin.startswith("numpy") for pin in pins)


def test_torch_is_never_replaced():
    pins = select_pins(CONSTRAINTS, BASE, {"torch"})
    assert [pin for pin in pins if pin.startswith("torch==")] == ["torch==2.13.0+rocm10.0.0"]


def test_what_torch_needs_is_pinned_as_in_ci_and_contains_no_torch():
    general = select_general(read_constraints(ROOT))
    assert set(general) < set(read_constraints(ROOT))
    assert not {read_name(line) for line in general} & set(TORCH_FAMILY)


def test_what_the_installed_torch_needs_comes_from_the_package_index():
    """Torch's own index then needs to have no more than torch and ROCm."""
    required = [line for line in requires("torch") if "extra ==" not in line]
    general = {read_name(line) for line in select_general(read_constraints(ROOT))}
    assert {read_name(line) for line in required if "platform_system" not in line} <= general


def test_timm_is_pinned_where_the_images_install_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {read_name(line) for line in select_wanted(project, ["worker", "vision"])}
    assert "timm" in wanted
    assert "torchvision" not in wanted
    pins = select_pins(read_constraints(ROOT), {}, {"timm", "torchvision"})
    assert [read_name(pin) for pin in pins] == ["timm"]


def test_the_slim_worker_takes_torch_from_one_index_alone():
    """A second index may offer a torch of another ROCm."""
    recipe = (ROOT / "docker" / "worker.Dockerfile").read_text()
    assert '--index-url "$TORCH_INDEX"' in recipe
    assert "--extra-index-url" not in recipe


def test_the_slim_worker_has_the_libraries_that_rocms_wheels_need_and_a_compiler():
    """Without libatomic, `import torch` fails (ROCm/TheRock#7348)."""
    recipe = (ROOT / "docker" / "worker.Dockerfile").read_text()
    added = {word for line in recipe.splitlines() if "&& add " in line for word in line.split()}
    assert {"libatomic1", "libquadmath0", "libgomp1", "g++", "python3-dev"} <= added


def test_every_pin_but_torch_has_hashes_and_nothing_else_has():
    pins = {
        f"{name}=={line.split('==')[1]}"
        for line in read_constraints(ROOT)
        if (name := read_name(line)) and name not in TORCH_FAMILY
    }
    assert read_hashes(ROOT / "docker/hashes.txt").keys() == pins, "run `make hashes`"


@pytest.fixture
def hashes(tmp_path):
    path = tmp_path / "hashes.txt"
    path.write_text(
        "a-b==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\nMako==2 --hash=sha256:cc\n"
    )
    return read_hashes(path)


def report_of(name, version, digest):
    info = {"archive_info": {"hashes": {"sha256": digest}}}
    return {"install": [{"metadata": {"name": name, "version": version}, "download_info": info}]}


def test_pins_get_the_hashes_of_all_their_files(hashes):
    lines = add_hashes(["A_b==1.0", "mako==2"], hashes)
    assert [line.split() for line in lines] == [
        ["a-b==1.0", "\\", "--hash=sha256:aa", "\\", "--hash=sha256:bb"],
        ["Mako==2", "--hash=sha256:cc"],
    ]


def test_an_installed_file_is_one_of_those_with_a_hash(hashes):
    assert verify(report_of("A.b", "1.0", "bb"), hashes) == 1
    with pytest.raises(Unlocked, match=r"the file of A\.b 1\.0 has another hash: cc"):
        verify(report_of("A.b", "1.0", "cc"), hashes)
    with pytest.raises(Unlocked, match=r"a-b==1\.1 is not in docker/hashes\.txt; pin the version"):
        verify(report_of("a-b", "1.1", "aa"), hashes)
