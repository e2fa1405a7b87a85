from types import SimpleNamespace

import numpy as np

from redkiln.predict.images import feed_pixels
from tests.redkiln.predict.models import SIDE, save_colours
from worker.export.variants import providers
from worker.export.variants.providers import ProviderResult, describe_providers, run_providers


def test_a_file_is_compared_on_each_provider_that_is_present(tmp_path, monkeypatch):
    assert "CPUExecutionProvider" not in providers.list_providers()
    names = ["CPUExecutionProvider", "CoreMLExecutionProvider"]
    monkeypatch.setattr(providers, "list_providers", lambda: names)
    pixels = np.random.default_rng(0).integers(0, 256, (9, SIDE, SIDE, 3), np.uint8)
    expected = (8 / 255) * pixels.astype(np.float64).mean(axis=(1, 2))
    target = SimpleNamespace(
        samples=SimpleNamespace(get=lambda rows: pixels[rows], feed=feed_pixels),
        exportable=SimpleNamespace(answers=None),
        scoring=SimpleNamespace(find_agreement=lambda a, b: float((a == a).mean())),
    )
    known = SimpleNamespace(num_test=6, rows=np.arange(9), outputs=expected)
    found = run_providers(save_colours(tmp_path), target, known)
    assert [one.name for one in found] == names
    assert (found[0].num_samples, found[0].agreement, found[0].reason) == (6, 1.0, "")
    assert found[0].relative < 1e-6
    assert (found[1].num_samples, found[1].relative) == (0, None)
    assert found[1].reason.startswith("ONNX Runtime cannot load its libraries")


def test_providers_are_described_with_their_numbers():
    right = ProviderResult(name="CUDA", num_samples=64, relative=2e-6, agreement=1.0)
    first, second = describe_providers(
        [right, ProviderResult(name="MIGraphX", reason="it crashes")]
    ).splitlines()
    assert first.startswith(
        "- CUDA: outputs differ by up to 2.0e-06 of the largest output, 100.00%"
    )
    assert second == "- MIGraphX does not run here: it crashes"
