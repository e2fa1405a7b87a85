from redkiln.predict.cpu import detect_cpu

X86 = """processor : 0
model name : AMD EPYC 9004
flags : fpu sse2 avx2 avx512f avx512_vnni

processor : 1
model name : AMD EPYC 9004
flags : fpu sse2 avx2 avx512f avx512_vnni
"""
ARM = "processor : 0\nFeatures : fp asimd asimddp i8mm\n"


def test_features_that_decide_how_int8_is_multiplied_are_listed(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(X86)
    found = detect_cpu(path)
    assert found["features"] == ["avx2", "avx512f", "avx512_vnni"]
    assert found["model"] == "AMD EPYC 9004"
    path.write_text(ARM)
    assert detect_cpu(path)["features"] == ["asimddp", "i8mm"]


def test_a_machine_without_the_list_has_no_known_features(tmp_path):
    assert detect_cpu(tmp_path / "none")["features"] == []
