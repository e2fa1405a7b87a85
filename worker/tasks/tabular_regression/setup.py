"""The loss and scores of the task `tabular-regression`.

Training uses targets with mean 0 and standard deviation 1, by the training split or by that of the
job whose weights it starts from. The exported model predicts in the target's own unit, which
metrics use too.
"""

from functools import partial

from torch.nn import functional

from redkiln.tasks.tabular_regression import TabularRegressionSpec
from worker.export.scoring.regression import Regression
from worker.export.target import Scoring
from worker.tasks.tabular.opened import TableJob
from worker.tasks.tabular.task import TableTask
from worker.trainer.optim.losses import Loss
from worker.trainer.scoring.evaluate import evaluate_regressor
from worker.trainer.scoring.validation import Score
from worker.trainer.tables.batches import ResidentRows

LOSSES: dict[str, Loss] = {
    "mse": functional.mse_loss,
    "huber": functional.huber_loss,
    "mae": functional.l1_loss,
}


def _build_loss(spec: TabularRegressionSpec, _job: TableJob, _rows: ResidentRows) -> Loss:
    return LOSSES[spec.training.loss]


def _build_score(job: TableJob, loss: Loss) -> Score:
    assert job.target is not None
    return partial(evaluate_regressor, loss=loss, restore=job.target.restore)


def _build_scoring(job: TableJob) -> Scoring:
    index = job.table.index
    return Regression(index.target, mean=index.target_mean, std=index.target_std)


def _is_better(metrics: dict[str, float], best: dict[str, float]) -> bool:
    return metrics["val/rmse"] < best["val/rmse"]


TASK = TableTask(
    TabularRegressionSpec, _build_loss, _build_score, lambda _spec: _is_better, _build_scoring
)
