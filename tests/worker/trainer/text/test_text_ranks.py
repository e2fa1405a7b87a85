"""Text jobs with two ranks, compared with the same jobs in one process."""

import pytest

from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_DONE, EXIT_STOPPED

# What is drawn differs from rank to rank.
MODEL = {"options": {"dim": 32, "layers": 1, "heads": 2, "vocabulary_size": 300, "dropout": 0.0}}
TRAINING = {
    "epochs": 2,
    # Shares of 4 and 5 texts, in micro steps of 2 and 3.
    "batch_size": 9,
    "accumulation": 2,
    "clip_norm": 1.0,
    "label_smoothing": 0.1,
    "class_weights": "balanced",
}


def assert_same_curve(found, wanted):
    assert wanted
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3)


def test_two_ranks_have_the_same_curve_as_one_process(make_text_job, start, losses, rank_pair):
    alone = make_text_job("alone", model=MODEL, training=TRAINING)
    loop, _ = start(alone)
    loop.run()
    both = make_text_job("both", model=MODEL, training=TRAINING)
    first, second = rank_pair.make(both)
    assert first == second
    assert (first["status"], first["step"]) == (EXIT_DONE, loop.step)
    assert_same_curve(losses(both), losses(alone))


def test_one_process_resumes_a_thawing_backbone_from_two_ranks(
    make_tuning_job, start, losses, rank_pair
):
    training = {**TRAINING, "freeze_backbone_epochs": 1}
    still = dict.fromkeys(("dropout", "attention_dropout", "seq_classif_dropout"), 0.0)
    model = {"pretrained": "org/small", "config": still}
    straight = make_tuning_job("straight", model=model, training=training)
    loop, setup = start(straight)
    loop.run()
    for stop_after in (5, setup.plan.steps_per_epoch + 4):
        name = f"stopped-{stop_after}"
        job_dir = make_tuning_job(name, model=model, training=training)
        answers = rank_pair.make(job_dir, stop_after=stop_after)
        assert [answer["status"] for answer in answers] == [EXIT_STOPPED, EXIT_STOPPED]
        saved = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]
        order = {"resume": saved.name}
        resumed = make_tuning_job(name, model=model, training=training, order=order)
        start(resumed)[0].run()
        assert_same_curve(losses(resumed), losses(straight))
