import gc
import subprocess
import sys

import pytest

from redkiln.imports import collector_off


def test_the_collector_rests_inside_and_ignores_afterwards_what_was_imported():
    before = gc.get_freeze_count()
    with collector_off():
        assert not gc.isenabled()
        kept = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() - before >= len(kept)


def test_an_import_that_fails_leaves_the_collector_on():
    with pytest.raises(ImportError), collector_off():
        import no_such_package  # noqa: F401
    assert gc.isenabled()


def test_importing_the_package_loads_no_library_that_takes_long():
    program = "import sys, redkiln; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "redkiln" in loaded
    heavy = {"pydantic", "httpx", "rich", "typer", "yaml", "numpy", "PIL", "torch", "onnxruntime"}
    assert loaded & heavy == set()
