from worker.hardware.facts import compilers
from worker.hardware.facts.compilers import find_compiler_obstacle


def test_messages_name_missing_compilers(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "g++" in find_compiler_obstacle("cpu", {})
    monkeypatch.setattr(compilers, "find_spec", lambda _name: object())
    assert "gcc" in find_compiler_obstacle("cuda", {})
    monkeypatch.setattr(compilers, "find_spec", lambda _name: None)
    assert "Triton" in find_compiler_obstacle("cuda", {})


def test_a_compiler_that_the_user_names_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    own = tmp_path / "my-c++"
    own.touch(mode=0o755)
    assert find_compiler_obstacle("cpu", {"CXX": str(own)}) is None
