import json
import sys

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from redkiln.predict.pixels import PixelFormat, to_pixels
from redkiln.views.comparison import BaselineScore, Comparison, Decision, Threshold
from redkiln.views.hardware import PatchOutcome
from redkiln.views.result import CopiesInTest
from worker.export.card.card import CardFacts, render_card
from worker.results.evidence import DeviceWork
from worker.results.findings import Finding, FirstSteps
from worker.tasks.image_classification.card import usage_code, write_image_texts

SIDE = 8
COMPARISON = Comparison(
    metric="test/accuracy",
    value=0.9,
    interval=(0.8, 1.0),
    baselines=[
        BaselineScore(name="majority class", metrics={"test/accuracy": 0.5}),
        BaselineScore(name="linear model", note="not trained: 200 classes are too many"),
    ],
    best="majority class",
    verdict="better",
    beats_constant=True,
)


class Session:
    """Stands for the model: keeps what it is given."""

    def __init__(self, _path):
        self.images = None

    def get_modelmeta(self):
        return self

    @property
    def custom_metadata_map(self):
        return {"classes": json.dumps(["a", "b"])}

    def run(self, _outputs, inputs):
        self.images = inputs["images"]
        return (np.array([[0.0, 1.0]]),)


@pytest.fixture
def files(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (20, 40, 4), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "transparent.png")
    deep = noise[..., 0].astype(np.uint16) * 256 + 7
    Image.fromarray(deep).save(tmp_path / "deep.png")
    Image.fromarray(noise[..., :3]).quantize(16).save(tmp_path / "palette.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by a quarter
    Image.fromarray(noise[..., :3]).save(tmp_path / "phone.png", exif=exif)
    return sorted(tmp_path.iterdir())


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_printed_snippet_prepares_images_like_training(files, monkeypatch, resize, channels):
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    options = {"image_size": SIDE, "channels": channels, "resize": resize}
    names = {}
    exec(usage_code(options, PREPROCESSING).strip("`").removeprefix("python"), names)
    for path in files:
        chances = names["predict"](path)
        assert max(chances, key=chances.get) == "b"
        assert abs(sum(chances.values()) - 1) < 1e-5
        seen = names["session"].images[0].transpose(1, 2, 0) * 255
        with Image.open(path) as image:
            trained = to_pixels(image, PixelFormat(size=SIDE, channels=channels, resize=resize))
        assert np.abs(seen - trained).max() < 0.01, path.name


@pytest.mark.parametrize("given", [[], ["phone.png"]])
def test_the_printed_program_answers_for_the_images_on_its_command_line(
    files, tmp_path, monkeypatch, capsys, given
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(sys, "argv", ["predict.py", *given])
    code = usage_code(OPTIONS, PREPROCESSING).strip("`").removeprefix("python")
    if given:
        exec(code, {"__name__": "__main__"})
        assert capsys.readouterr().out.startswith("phone.png {'a': 0.26")
    else:
        with pytest.raises(SystemExit, match=r"usage: python predict.py IMAGE"):
            exec(code, {"__name__": "__main__"})


OPTIONS = {"image_size": 8, "channels": 3, "resize": "stretch"}
PREPROCESSING = {
    "resize": "stretch", "size": 8, "resampling": "bilinear", "channel_order": "RGB",
    "mean": [0.5], "std": [0.5], "input": "images", "output": "logits",
}  # fmt: skip


def card_of(environment, **changes):
    facts = CardFacts.model_construct(
        job_name="j", job_id="job_1", dataset="d", dataset_notes=[], fingerprint="f",
        noun="images", headline="", results="", output="Classes: a", drop=("lost", 0.0),
        texts=write_image_texts(OPTIONS, num_classes=1, preprocessing=PREPROCESSING, augment={}),
        counts={"train": 1, "test": 1}, held_out_test=False, num_parameters=1,
        best_epoch=1, best_step=1, steps=1, planned_steps=1, steps_per_epoch=1, epochs=1,
        verified=True, misses=[],
        metrics={"test/accuracy": 1.0, "test/accuracy_onnx": 1.0, "test/loss": 0.1},
        intervals={"test/accuracy": (0.8, 1.0)}, comparison=COMPARISON,
        parity={"num_samples": 1, "relative": 0.0, "max_abs": 0.0, "agreement": 1.0},
        gate={"tolerance": 1e-3, "max_metric_drop": 0.0}, seconds={"training": 1.0},
        model_file={"opset": 20, "ir_version": 10, "num_nodes": 1, "size_bytes": 1},
        spec={
            "model": {"name": "amdnet", "options": OPTIONS},
            "training": {"batch_size": 8, "accumulation": 1, "precision": "fp32",
                         "label_smoothing": 0, "seed": 0, "augment": {}, "ema": None,
                         "optimizer": {"name": "sgd"}, "schedule": {"name": "cosine"}},
        },
        environment=environment,
    )  # fmt: skip
    return render_card(facts.model_copy(update=changes))


def test_the_card_lists_applied_patches_first_and_others_with_reasons():
    outcomes = [
        PatchOutcome(name="sdma", outcome="skipped", why="only some APUs"),
        PatchOutcome(name="caches", outcome="applied", why="kept", environment={"DIR": "/data/x"}),
        PatchOutcome(
            name="miopen_log", outcome="applied", why="noise", environment={"MIOPEN_LOG_LEVEL": "3"}
        ),
    ]
    dumped = [outcome.model_dump(exclude_defaults=True) for outcome in outcomes]
    text = card_of({"torch": "2.13", "patches": dumped}).partition("### Patches")[2]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows == [
        "| caches | applied | kept: `DIR` |",
        "| miopen_log | applied | noise: `MIOPEN_LOG_LEVEL=3` |",
        "| sdma | skipped | only some APUs |",
    ]


def test_the_time_of_training_is_shown_next_to_its_estimate():
    assert "Time: training 1.0 s\n" in card_of({})
    text = card_of({}, estimated_seconds=1080.25)
    assert "Time: training 1.0 s. Before the first step, 1080.2 s were estimated" in text


def test_without_patches_the_card_has_no_table_of_them():
    assert "### Patches" not in card_of({"torch": "2.13", "patches": []})


def test_the_card_shows_advice_with_the_training_time():
    text = card_of({}, advice=["loader-bound: preparing batches takes 43% of a step"])
    assert "- Time: " in text
    assert "- To train faster: loader-bound: preparing batches takes 43% of a step" in text
    assert "Faster" not in card_of({})


WORK = DeviceWork(
    device="cuda:0", steps=3, wall_seconds=0.5, device_seconds=0.5, gradient_bytes=8,
    allocated_bytes=80, peak_bytes=1 << 20, used_bytes=1 << 30, device_operators=90,
    cpu_operators=2,
)  # fmt: skip


def test_the_card_has_the_evidence_of_gpu_work_and_the_waits():
    finding = Finding(
        kind="host_synchronisation", what="nonzero", where="a_b.py:3 in f", count=4, bytes=2048
    )
    steps = FirstSteps(work=WORK, audited_steps=2, findings=[finding])
    text = card_of({}, first_steps=steps).partition("### First steps on the GPU")[2]
    assert "the first 3 steps ran on cuda:0: 90 operators on it, 2 on the CPU" in text
    assert "- nonzero x4 (2 KiB) at a\\_b.py:3 in f" in text


def test_a_card_reports_missing_findings_on_a_gpu_only():
    quiet = FirstSteps(work=WORK, audited_steps=2, findings=[])
    assert "No operator of 2 steps" in card_of({}, first_steps=quiet)
    unaudited = FirstSteps(work=WORK, audited_steps=0, findings=[])
    assert "No operator" not in card_of({}, first_steps=unaudited)
    assert "First steps" not in card_of({})


def test_only_a_job_with_a_validation_split_has_a_best_epoch():
    counts = {"train": 8, "validation": 1, "test": 1}
    chosen = card_of({}, counts=counts)
    assert "after the best epoch was chosen on 1 validation images (so few that" in chosen
    many = card_of({}, counts={**counts, "validation": 1200})
    assert "after the best epoch was chosen on 1,200 validation images." in many
    assert "- Best epoch 1 (step 1)" in chosen
    for without in ({"train": 8, "test": 1}, {**counts, "validation": 0}):
        text = card_of({}, counts=without)
        assert "The test split was scored once, after the last epoch." in text
        assert "- Last epoch 1 (step 1)" in text
        assert "best epoch" not in text.lower()


def test_a_held_out_test_split_is_reported_without_classes():
    text = card_of({}, noun="rows", held_out_test=True)
    assert (
        "- The data set has no test split, so a tenth of its rows was held out for testing." in text
    )


def test_the_card_says_once_that_a_test_split_was_held_out():
    note = "there is no test split: 9 of 90 rows were held out for testing"
    text = card_of({}, noun="rows", held_out_test=True, dataset_notes=[note])
    assert text.count("no test split") == 1
    assert "- There is no test split: 9 of 90 rows were held out" in text


def test_the_notes_of_the_card_leave_out_options_of_an_upload():
    notes = ["the target is column price; to change it: target=NAME", "labels.csv has labels"]
    text = card_of({}, dataset_notes=notes)
    assert "- The target is column price\n- labels.csv has labels\n" in text


def test_a_difference_that_rounds_to_zero_has_no_sign():
    text = card_of({}, drop=("growth", -1e-9), gate={"tolerance": 1e-3, "max_metric_drop": 0.005})
    assert "| 0.0000 | 0.0050 |" in text


def test_the_card_shows_the_warnings_of_the_data_set_and_counts_them_at_its_top():
    copies = "1 of 27 test texts are equal to training texts (line 3 and line 9)"
    text = card_of({}, dataset_warnings=[copies, "column `a` leaks"])
    summary, data = text.partition("## Results")[0], text.partition("## Data")[2]
    assert "**The data set has 2 warnings**" in summary
    assert f"Warnings about the data:\n\n- {copies}.\n- Column `a` leaks.\n" in data
    assert "warning" not in card_of({}).lower()


def test_the_headline_names_a_column_that_gives_the_target_away():
    leak = "column final_price predicts the target almost without mistakes"
    summary = card_of({}, dataset_warnings=[leak, "2 copies"], dataset_leaks=[leak])
    summary, data = summary.partition("## Results")[0], summary.partition("## Data")[2]
    assert "**New data may score far worse**: column final\\_price predicts" in summary
    assert "**The data set has 2 warnings**" in summary
    assert "- Column final\\_price predicts" in data
    alone = card_of({}, dataset_warnings=[leak], dataset_leaks=[leak]).partition("## Results")[0]
    assert "**The data set has 1 warning**" in alone
    assert "score far worse" not in card_of({}, dataset_warnings=["2 copies"])


def test_the_summary_says_which_columns_were_not_used():
    unused = "columns that are not used: note: it is prose; to use one, push the table again"
    summary = card_of({}, dataset_warnings=[unused, "2 copies"]).partition("## Results")[0]
    assert "\n\nColumns that are not used: note: it is prose; to use one, push the" in summary
    assert "**The data set has 2 warnings**" in summary
    alone = card_of({}, dataset_warnings=[unused]).partition("## Results")[0]
    assert "Columns that are not used" in alone
    assert "**The data set has 1 warning**" in alone


def test_the_headline_counts_test_samples_that_are_copies_of_training_samples():
    assert "images that were not used for training." in card_of({}).partition("## Results")[0]
    of_training = {"noun": "images", "num_test": 60, "num_copies": 7}
    text = card_of({}, copies=CopiesInTest(**of_training)).partition("## Results")[0]
    assert "not used for training" not in text
    assert "images, of which at least 7 are copies or near copies of training images." in text
    one = card_of({}, copies=CopiesInTest(**{**of_training, "num_copies": 1}))
    assert "of which at least 1 is a copy or near copy of a training image." in one


def test_the_headline_counts_test_samples_that_are_copies_of_each_other():
    repeated = {"noun": "images", "num_test": 60, "num_repeated": 12}
    text = card_of({}, copies=CopiesInTest(**repeated)).partition("## Results")[0]
    assert (
        "images that were not used for training. 12 of the test images are copies or near copies "
        "of other test images, so the 95 % intervals are narrower than they should be.\n"
    ) in text
    one = card_of({}, copies=CopiesInTest(**{**repeated, "num_copies": 1, "num_repeated": 1}))
    assert "a training image. 1 of the test images is a copy or near copy of another test" in one


def test_the_card_shows_intervals_and_baselines():
    text = card_of({})
    assert "| test/accuracy | 1.0000 | 0.8000 to 1.0000 |" in text
    assert "| test/loss | 0.1000 |  |" in text
    section = text.partition("## Baselines")[2].partition("## ")[0]
    assert "The model is better than the best baseline, majority class. The" in section
    assert "paired test" not in section
    assert "| this model | 0.9000 | 95 % interval 0.8000 to 1.0000 |" in section
    assert "| majority class | 0.5000 |  |" in section
    assert "| linear model | - | not trained: 200 classes are too many |" in section


def test_baselines_are_also_compared_by_the_auc_that_the_model_has():
    scores = {"test/accuracy": 0.5, "test/auc": 0.61234}
    baselines = [
        BaselineScore(name="majority class", metrics=scores),
        BaselineScore(name="linear model", note="not trained: 200 classes are too many"),
    ]
    facts = {"comparison": COMPARISON.model_copy(update={"baselines": baselines})}
    text = card_of({}, metrics={"test/accuracy": 0.9, "test/auc": 0.95}, **facts)
    section = text.partition("## Baselines")[2].partition("## ")[0]
    assert "| | test/accuracy | test/auc | |\n|---|---|---|---|\n" in section
    interval = "95 % interval of test/accuracy 0.8000 to 1.0000"
    assert f"| this model | 0.9000 | 0.9500 | {interval} |" in section
    assert "| majority class | 0.5000 | 0.6123 |  |" in section
    assert "| linear model | - | - | not trained: 200 classes are too many |" in section
    assert "test/auc" not in card_of({}, **facts)


def test_the_card_shows_the_jobs_warning_instead_of_a_verdict_on_the_best_baseline():
    warning = "the test split has only 3 samples of class `1`, too few for a sure verdict"
    few = COMPARISON.model_copy(update={"beats_constant": False, "verdict": "equal"})
    section = card_of({}, comparison=few, warning=warning).partition("## Baselines")[2]
    assert section.strip().startswith(f"**T{warning[1:]}.**")
    assert "does not show" not in section


def test_the_headline_has_the_interval_of_an_accuracy():
    text = card_of({}, headline="Test accuracy **100.00%**")
    assert "Test accuracy **100.00%** (95 % interval 80.0% to 100.0%) on 1 images" in text
    assert "Test RMSE **1.2** on 1 images" in card_of({}, headline="Test RMSE **1.2**")
    several = COMPARISON.model_copy(update={"metric": "test/map"})
    lead, ends = "Test mean average precision **93.00%**", {"test/map": (0.85, 0.98)}
    text = card_of({}, headline=f"{lead}, macro F1 **8%**", comparison=several, intervals=ends)
    assert f"{lead} (95 % interval 85.0% to 98.0%), macro F1 **8%** on 1 images" in text


def test_macro_f1_leads_with_the_share_of_the_class_that_an_accuracy_would_show():
    first = BaselineScore(
        name="majority class", metrics={"test/accuracy": 0.989, "test/macro_f1": 0.5}
    )
    rare = COMPARISON.model_copy(update={"metric": "test/macro_f1", "baselines": [first]})
    metrics = {"test/accuracy": 0.99, "test/macro_f1": 0.71}
    text = card_of(
        {},
        headline="Test macro F1 **0.710**",
        comparison=rare,
        metrics=metrics,
        intervals={"test/macro_f1": (0.6, 0.8), "test/accuracy": (0.98, 1.0)},
    )
    assert "Test macro F1 **0.710** (95 % interval 0.600 to 0.800) on 1 images" in text
    assert "largest class is right for 98.9% of them, so the accuracy of 99.0% says little" in text
    assert "largest class" not in card_of({})


def test_an_interval_without_width_is_not_shown():
    section = card_of({}, comparison=COMPARISON.model_copy(update={"interval": (0.9, 0.9)}))
    assert "| this model | 0.9000 |  |" in section


UNSURE = "The test samples do not show whether the model or the best baseline, majority class,"


@pytest.mark.parametrize(
    ("verdict", "different", "words"),
    [
        ("worse", 9, "The model is worse than the best baseline, majority class."),
        ("better", None, "The model is better than the best baseline, majority class."),
        ("equal", 3, f"{UNSURE} is better (their answers differ for 3 of 26). The baselines were "),
        ("equal", 0, f"{UNSURE} is better (both give the same answers). The baselines were "),
        ("equal", None, f"{UNSURE} is better. The baselines were "),
    ],
)
def test_the_verdict_of_a_paired_test_is_a_sentence(verdict, different, words):
    update = {"verdict": verdict, "num_different": different, "num_test": 26, "is_paired": True}
    section = card_of({}, comparison=COMPARISON.model_copy(update=update))
    assert f"## Baselines\n\n{words}" in section
    assert "only if a paired test on these samples is sure of it, at 95 %." in section


def test_the_card_says_that_model_and_baseline_are_both_perfect():
    section = card_of({}, comparison=COMPARISON.model_copy(update={"both_perfect": True}))
    assert "as good as the best baseline: both are right on every test sample" in section
    constant = BaselineScore(name="majority class", metrics={"test/accuracy": 0.5})
    trees = BaselineScore(name="trees", metrics={"test/accuracy": 1})
    update = {"both_perfect": True, "baselines": [constant, trees], "best": "trees"}
    section = card_of({}, comparison=COMPARISON.model_copy(update=update))
    assert "right: check whether a column already contains the answer." in section


def test_the_card_offers_another_threshold_only_if_it_is_better():
    facts = {"class_name": "yes", "validation_f1": 0.7, "test_f1": 0.68, "test_f1_at_half": 0.58}
    text = card_of({}, threshold=Threshold(probability=0.31, **facts))
    assert "From a probability of 0.3100, the F1 on the test split is 0.6800." in text
    assert "in your own program, answer yes if its probability is at least 0.3100." in text
    assert "(0.7000) on the validation split." in text
    assert "false alarms" not in text  # of an earlier version
    counted = Decision(probability=0.31, found=14, missed=6, false_alarms=7)
    text = card_of({}, threshold=Threshold(probability=0.31, decisions=[counted], **facts))
    assert (
        "| yes from | found | false alarms |\n|---|---|---|\n| 0.31 (chosen) | 14 of 20 | 7 |"
        in text
    )
    few = counted.model_copy(update={"found": 4, "missed": 2})
    text = card_of({}, threshold=Threshold(probability=0.31, decisions=[few], **facts))
    assert "6 test samples of this class do not show which is better. For a table, " in text
    text = card_of({}, threshold=Threshold(probability=0.5, num_of_class=5, **facts))
    assert "`redkiln predict --threshold auto` changes nothing: no other probability" in text
    assert "on the validation split (5 of class yes)." in text
    text = card_of({}, threshold=Threshold(probability=0.31, chosen_on="folds", **facts))
    assert "(0.7000) on the held-out samples of all folds." in text
    assert "Decision threshold" not in card_of({})
