"""A Lightning module that learns a sine; a callback reports its metrics."""

import argparse
import os
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import redkiln

OUT = Path(os.environ.get("REDKILN_OUT", "out"))
CHECKPOINTS = Path(os.environ.get("REDKILN_CHECKPOINTS", "checkpoints"))


class TellRedkiln(Callback):
    """Reports what the module logs as metrics of the job."""

    def on_train_start(self, trainer, module):
        if trainer.global_step:
            print(f"resumes after step {trainer.global_step}", flush=True)

    def on_train_epoch_end(self, trainer, module):
        numbers = {name: float(value) for name, value in trainer.callback_metrics.items()}
        steps = int(trainer.estimated_stepping_batches)
        redkiln.log(
            numbers, step=trainer.global_step, steps=steps,
            epoch=trainer.current_epoch + 1, epochs=trainer.max_epochs,
        )  # fmt: skip


class Sine(lightning.LightningModule):
    """A small network from x to sin(x)."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1))

    def training_step(self, batch, _place):
        x, y = batch
        loss = nn.functional.mse_loss(self.network(x), y)
        self.log("train/loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    lightning.seed_everything(0)
    x = torch.linspace(-3, 3, 2048).unsqueeze(1)
    loader = DataLoader(TensorDataset(x, x.sin()), batch_size=64, shuffle=True)
    keep = ModelCheckpoint(dirpath=CHECKPOINTS, save_last=True, every_n_epochs=1)
    trainer = lightning.Trainer(
        max_epochs=options.epochs, callbacks=[keep, TellRedkiln()], logger=False,
        default_root_dir=OUT, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    last = CHECKPOINTS / "last.ckpt"
    trainer.fit(Sine(), loader, ckpt_path=last if last.exists() else None)
    OUT.mkdir(parents=True, exist_ok=True)
    torch.save(trainer.model.state_dict(), OUT / "sine.pt")


if __name__ == "__main__":
    main()
