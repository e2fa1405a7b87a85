from pathlib import Path

import pytest
import torch

from redkiln.failure import FailureCode
from redkiln.spec.exports import Export
from worker.export import rehearsal
from worker.export.exportable import Answers, Exportable
from worker.export.onnx_file import check_size
from worker.export.rehearsal import is_rehearsed, rehearsal_key, rehearse_export
from worker.jobdir import EXIT_FAILED
from worker.process.failed import TrainingFailed
from worker.process.lifetime import StopSignal
from worker.tasks.image_classification.exported import make_exportable
from worker.tasks.train import run_job


class Sorted(torch.nn.Module):
    """Branches on data, which no exporter can follow."""

    def forward(self, images):
        return images.flatten(1) if images.sum() > 0 else -images.flatten(1)


class Inconsistent(torch.nn.Module):
    """Is one thing while it is exported and another afterwards."""

    def forward(self, images):
        factor = 1.0 if torch.compiler.is_compiling() else 2.0
        return images.flatten(1) * factor


class OutOfReach(torch.nn.Module):
    """Has a file that loads, and cannot run."""

    def forward(self, images):
        rows = torch.arange(len(images)) + (100 if torch.compiler.is_compiling() else 0)
        return images.flatten(1)[rows]


class Noisy(torch.nn.Module):
    """Returns what float32 can hardly compute, and an answer that is chosen from it."""

    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def forward(self, images):
        raw = (images.flatten(1) + 1e5).sum(dim=1) - 1e5 * images[0].numel()
        raw = raw + (self.bias if torch.compiler.is_compiling() else 0.0)
        return raw, (raw > 0).float()


def with_answers(network):
    answers = Answers(
        names=("is_bright",),
        defaults={},
        join=lambda found: found[0],
        split=lambda joined: {"is_bright": joined},
        agreement="answers",
        least_agreement=1.0,
        translate=dict,
    )
    given = {"images": torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))}
    return Exportable(network, given, given, "raw", {"name": "noisy"}, answers=answers)


def test_a_model_with_answers_may_differ_by_the_rounding_of_torch(tmp_path):
    gate = Export(tolerance=1e-9)
    noisy = with_answers(Noisy(0.0))
    assert noisy.measure_noise({"images": noisy.others["images"].numpy()}) > gate.tolerance
    options = {"key": "key", "cache_dir": tmp_path, "threads": 1}
    rehearse_export(noisy, gate, **options)
    with pytest.raises(TrainingFailed, match="differ from torch's"):
        rehearse_export(with_answers(Noisy(1e3)), gate, **options)


def exportable(network):
    return make_exportable(
        network, mean=[0.5], std=[0.25], image_size=8, architecture={"name": "test"}
    )


def rehearse(network, cache_dir):
    return rehearse_export(exportable(network), Export(), key="key", cache_dir=cache_dir, threads=1)


class Asleep(torch.nn.Module):
    """Hides an error: its signal vanishes, as it does in new detectors with many layers."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8 * 8, 4)
        self.zeros = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.head = torch.nn.Linear(4, 2)
        self.wrong = Inconsistent()
        torch.nn.init.normal_(self.body.weight, std=1e-9)
        for vanishing in (self.body.bias, self.zeros.weight, self.zeros.bias):
            torch.nn.init.zeros_(vanishing)

    def forward(self, images):
        return self.head(self.wrong(self.norm(self.zeros(self.body(images.flatten(1))))))


def test_a_signal_that_vanishes_hides_no_error(tmp_path):
    torch.manual_seed(0)
    network = Asleep()
    with pytest.raises(TrainingFailed, match="differ from torch's"):
        rehearse(network, tmp_path)
    assert not network.zeros.weight.any(), "the rehearsed model is a copy"
    network.wrong = torch.nn.Identity()
    assert rehearse(network, tmp_path) < 1e-5


def test_a_good_verdict_is_remembered(tmp_path):
    assert not is_rehearsed("key", cache_dir=tmp_path)
    assert rehearse(torch.nn.Flatten(), tmp_path) < 1e-6
    assert is_rehearsed("key", cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (Sorted(), "cannot be exported"),
        (OutOfReach(), "cannot run the exported file"),
        (Inconsistent(), "outputs differ from torch's"),
    ],
)
def test_a_failed_export_is_refused_and_not_remembered(tmp_path, network, words):
    with pytest.raises(TrainingFailed, match=words) as caught:
        rehearse(network, tmp_path)
    assert caught.value.failure.code is FailureCode.EXPORT_REFUSED
    assert not is_rehearsed("key", cache_dir=tmp_path)


def test_weights_too_large_for_one_file_are_refused():
    with torch.device("meta"):
        huge = torch.nn.Linear(2**15, 2**14 + 1)
    with pytest.raises(TrainingFailed, match=r"2\.1 GB"):
        check_size(huge)


def test_the_key_depends_on_everything_the_verdict_depends_on(monkeypatch):
    base = rehearsal_key({"name": "a"}, Export())
    assert rehearsal_key({"name": "a"}, Export()) == base
    assert rehearsal_key({"name": "b"}, Export()) != base
    assert rehearsal_key({"name": "a"}, Export(opset=21)) != base
    assert rehearsal_key({"name": "a"}, Export(require_verified=True)) == base
    monkeypatch.setattr(rehearsal.metadata, "version", lambda _name: "99")
    assert rehearsal_key({"name": "a"}, Export()) != base


def test_a_job_whose_model_cannot_be_exported_never_trains(make_job, events, tmp_path, monkeypatch):
    class Network(Sorted):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, images):
            return self.weight * super().forward(images)

    monkeypatch.setattr(
        "worker.trainer.models.initial_weights.build_model", lambda *_a, **_k: Network()
    )
    training = {"batch_size": 8, "compile": "off"}
    job_dir = make_job(training=training, order={"cache_dir": str(tmp_path / "cache")})
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    assert [e["data"]["phase"] for e in events(job_dir, "phase")] == ["preparing", "rehearsing"]
    assert events(job_dir)[-1]["data"]["code"] == "export_refused"


@pytest.mark.parametrize(
    "path",
    ["worker/export/onnx_file.py", "worker/onnx_module/run.py", "redkiln/predict/session.py"],
)
def test_changed_code_makes_an_earlier_rehearsal_invalid(path, monkeypatch):
    before, read = rehearsal_key({}, Export()), Path.read_bytes

    def read_changed(self):
        return read(self) + (b"# changed" if self.as_posix().endswith(path) else b"")

    monkeypatch.setattr(Path, "read_bytes", read_changed)
    assert rehearsal_key({}, Export()) != before
