"""A Keras network that TensorFlow trains on scikit-learn's digits, and its ONNX file."""

import argparse
import os
from pathlib import Path

import numpy as np
import onnx
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow import keras

import redkiln

OUT = Path(os.environ.get("REDKILN_OUT", "out"))
CHECKPOINTS = Path(os.environ.get("REDKILN_CHECKPOINTS", "checkpoints"))
NEWEST = CHECKPOINTS / "newest.keras"
BATCH = 64


class TellRedkiln(keras.callbacks.Callback):
    """Reports the numbers of each epoch as metrics of the job, and keeps a checkpoint."""

    def on_epoch_end(self, epoch, logs=None):
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        steps = self.params["steps"]
        redkiln.log(
            numbers, step=(epoch + 1) * steps, steps=self.params["epochs"] * steps,
            epoch=epoch + 1, epochs=self.params["epochs"],
        )  # fmt: skip
        partial = CHECKPOINTS / "partial.keras"
        self.model.save(partial)
        partial.replace(NEWEST)  # atomic


def prepare_devices() -> None:
    """Take as many threads as the job has, and no more memory of its GPU than is needed."""
    tf.config.threading.set_intra_op_parallelism_threads(int(os.environ.get("OMP_NUM_THREADS", 0)))
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    print(
        f"TensorFlow {tf.__version__} trains on {gpus[0].name if gpus else 'the CPU'}", flush=True
    )


def build_network() -> keras.Model:
    """Return a network from (B, 8, 8, 1) grey images to (B, 10) logits."""
    network = keras.Sequential([
        keras.Input((8, 8, 1), name="pixels"),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10, name="logits"),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.Adam(2e-3), loss=loss, metrics=["accuracy"])
    return network


def export(network: keras.Model, images: np.ndarray) -> None:
    """Write the ONNX file, and samples with the network's answers, which Redkiln compares."""
    OUT.mkdir(parents=True, exist_ok=True)
    network.export(OUT / "digits.onnx", format="onnx", verbose=False)
    graph = onnx.load(OUT / "digits.onnx").graph
    answers = network.predict(images, verbose=0)
    np.savez(OUT / "samples.npz", **{graph.input[0].name: images, graph.output[0].name: answers})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    prepare_devices()
    keras.utils.set_random_seed(0)
    found = load_digits()
    images = (found.images / 16).astype("float32")[..., np.newaxis]
    train, test = slice(0, 1500), slice(1500, None)

    first, network = 0, build_network()
    if NEWEST.exists():
        network = keras.models.load_model(NEWEST)
        first = int(network.optimizer.iterations) // -(-len(images[train]) // BATCH)
        print(f"resumes after step {int(network.optimizer.iterations)}", flush=True)
    network.fit(
        images[train], found.target[train], validation_data=(images[test], found.target[test]),
        batch_size=BATCH, epochs=options.epochs, initial_epoch=first, verbose=0,
        callbacks=[TellRedkiln()],
    )  # fmt: skip
    _, accuracy = network.evaluate(images[test], found.target[test], verbose=0)
    print(f"test accuracy {accuracy:.4f}", flush=True)
    export(network, images[test][:8])


if __name__ == "__main__":
    main()
