"""Tiny ONNX files with the metadata that an export writes."""

import hashlib
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 4
COLOURS = ["red", "green", "blue"]


def save(folder, nodes, inputs, output, *, weights=None, manifest=None, name="model.onnx", **facts):
    """Write a graph with metadata, and a manifest that lists the file."""
    folder.mkdir(parents=True, exist_ok=True)
    initializers = [numpy_helper.from_array(v, n) for n, v in (weights or {}).items()]
    outputs = output if isinstance(output, list) else [output]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    for key, value in {"job_id": "job_tiny", **facts}.items():
        text = value if isinstance(value, str) else json.dumps(value)
        model.metadata_props.add(key=key, value=text)
    onnx.checker.check_model(model, full_check=True)
    path = folder / name
    onnx.save(model, path)
    content = path.read_bytes()
    files = {name: {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}}
    described = {"verification": {"verified": True}, "files": files, **(manifest or {})}
    (folder / "manifest.json").write_text(json.dumps(described))
    return path


def value_info(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, ["batch", *shape])


def save_colours(folder, **options):
    """Says which channel is brightest, times 8."""
    nodes = [
        helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "eight"], ["logits"]),
    ]
    return save(
        folder,
        nodes,
        [value_info("images", TensorProto.FLOAT, 3, SIDE, SIDE)],
        value_info("logits", TensorProto.FLOAT, 3),
        weights={"axes": np.array([2, 3]), "eight": np.array(8, np.float32)},
        task="image-classification",
        classes=COLOURS,
        preprocessing={
            "input": "images",
            "output": "logits",
            "channel_order": "RGB",
            "size": SIDE,
            "resize": "stretch",
        },
        **options,
    )


def save_detector(folder, *, resize="pad", threshold=0.5, mask=None, **options):
    """Finds a `moon` in the middle half of the square, with the image's brightness as its score.

    With `mask` (T, T), 255 for a certain pixel, it finds its pixels in a single image, too.
    """
    has_mask = mask is not None
    nodes = [helper.make_node("Identity", ["all_masks"], ["masks"])] if has_mask else []
    nodes += [
        helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "last"], ["column"]),
        helper.make_node("GreaterOrEqual", ["column", "threshold"], ["is_enough"]),
        helper.make_node("Where", ["is_enough", "column", "zero"], ["score"]),
        helper.make_node("Mul", ["score", "first"], ["scores"]),
        helper.make_node("Greater", ["scores", "zero"], ["is_found"]),
        helper.make_node("Where", ["is_found", "moon", "nothing"], ["labels"]),
        helper.make_node("Cast", ["is_found"], ["found"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["found", "last"], ["places"]),
        helper.make_node("Mul", ["places", "box"], ["boxes"]),
    ]
    first = np.zeros((1, 100), np.float32)
    first[0, 0] = 1
    masks = np.zeros((1, 100, *np.shape(mask)), np.uint8) if has_mask else None
    if has_mask:
        masks[0, 0] = mask
    names = ["boxes", "scores", "labels", *(["masks"] if has_mask else [])]
    return save(
        folder,
        nodes,
        [
            value_info("images", TensorProto.FLOAT, 3, SIDE, SIDE),
            helper.make_tensor_value_info("threshold", TensorProto.FLOAT, [1]),
        ],
        [
            value_info("boxes", TensorProto.FLOAT, 100, 4),
            value_info("scores", TensorProto.FLOAT, 100),
            value_info("labels", TensorProto.INT64, 100),
            *([value_info("masks", TensorProto.UINT8, 100, *np.shape(mask))] if has_mask else []),
        ],
        weights={
            **({"all_masks": masks} if has_mask else {}),
            "threshold": np.array([threshold], np.float32),
            "axes": np.array([1, 2, 3]),
            "last": np.array([-1]),
            "zero": np.zeros(1, np.float32),
            "first": first,
            "moon": np.array([1]),
            "nothing": np.array([-1]),
            "box": np.array([0, SIDE / 4, SIDE, 3 * SIDE / 4], np.float32),
        },
        task="instance-segmentation" if has_mask else "object-detection",
        classes=["sun", "moon"],
        detection={
            "most_boxes": 100,
            "overlap": 0.6,
            "threshold": threshold,
            "scored_threshold": 0.001,
        },
        preprocessing={
            "input": "images",
            "outputs": names,
            "channel_order": "RGB",
            "size": SIDE,
            "resize": resize,
            **({"mask_side": len(mask)} if has_mask else {}),
        },
        **options,
    )


def save_segmenter(folder, *, resize="stretch", **options):
    """Says that bright pixels are `sky`, and the others `ground`."""
    nodes = [
        helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
        helper.make_node("Greater", ["mean", "half"], ["is_bright"]),
        helper.make_node("Cast", ["is_bright"], ["classes"], to=TensorProto.UINT8),
    ]
    return save(
        folder,
        nodes,
        [value_info("images", TensorProto.FLOAT, 3, SIDE, SIDE)],
        value_info("classes", TensorProto.UINT8, SIDE, SIDE),
        weights={"axes": np.array([1]), "half": np.array(0.5, np.float32)},
        task="semantic-segmentation",
        classes=["ground", "sky"],
        segmentation={"ignored": 255},
        preprocessing={
            "input": "images",
            "output": "classes",
            "channel_order": "RGB",
            "size": SIDE,
            "resize": resize,
        },
        **options,
    )


def save_prices(
    folder,
    *,
    complete_columns=(),
    colours=("white", "grey"),
    ignored=(),
    target_written=None,
    **options,
):
    """Predicts 100 * rooms + year, or 0 for a missing number, + 1000 * place of the colour."""
    nodes = [
        helper.make_node("IsNaN", ["numbers"], ["gaps"]),
        helper.make_node("Where", ["gaps", "zero", "numbers"], ["filled"]),
        helper.make_node("MatMul", ["filled", "weights"], ["sums"]),
        helper.make_node("Cast", ["codes"], ["places"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["places", "thousand"], ["extra"]),
        helper.make_node("Add", ["sums", "extra"], ["both"]),
        helper.make_node("Squeeze", ["both", "last"], ["value"]),
    ]
    number_part = {
        "name": "numbers",
        "columns": ["rooms", "built (year)"],
        "missing_numbers": [-999.0],
        "written": {"rooms": {"unit": "$", "decimal": ","}},
        "derived": {"built (year)": {"column": "built", "part": "year", "day_first": True}},
    }
    code_part = {
        "name": "codes",
        "columns": ["colour"],
        "categories": {"colour": list(colours)},
    }
    return save(
        folder,
        nodes,
        [value_info("numbers", TensorProto.FLOAT, 2), value_info("codes", TensorProto.INT64, 1)],
        helper.make_tensor_value_info("value", TensorProto.FLOAT, ["batch"]),
        weights={
            "zero": np.array(0, np.float32),
            "weights": np.array([[100], [1]], np.float32),
            "thousand": np.array(1000, np.float32),
            "last": np.array([1]),
        },
        task="tabular-regression",
        target={"name": "price", "mean": 0.0, "std": 1.0},
        preprocessing={
            "output": "value",
            "inputs": [number_part, code_part],
            "missing_words": ["unknown"],
            "complete_columns": list(complete_columns),
            "ignored": list(ignored),
            "target_written": target_written,
        },
        **options,
    )


def save_moods(folder, *, tokenizer=None, **options):
    """Adds up how good and how bad the words are: `good` counts for one, `bad` for the other.

    Another tokenizer's tokens have arbitrary values.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {"[PAD]": 0, "[UNK]": 1, "good": 2, "bad": 3}
    values = np.array([[9, 9], [0, 0], [3, 0], [0, 3]], np.float32)
    if tokenizer is None:
        tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = Whitespace()
        tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    else:
        values = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 2))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["each"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["each", "wide"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "tokens"], ["logits"], keepdims=0),
    ]
    return save(
        folder,
        nodes,
        [value_info(name, TensorProto.INT64, "t") for name in ("input_ids", "attention_mask")],
        value_info("logits", TensorProto.FLOAT, 2),
        weights={
            "table": values.astype(np.float32),
            "last": np.array([2]),
            "tokens": np.array([1]),
        },
        task="text-classification",
        classes=["happy", "sad"],
        preprocessing={
            "inputs": ["input_ids", "attention_mask"],
            "output": "logits",
            "tokenizer": "tokenizer.json",
            "column": "message",
            "target": "mood",
        },
        **options,
    )


def save_channels(folder, **options):
    """Returns how bright each channel is, as a probability; red needs 0.8, the others 0.5."""
    nodes = [helper.make_node("ReduceMean", ["images", "axes"], ["probabilities"], keepdims=0)]
    return save(
        folder,
        nodes,
        [value_info("images", TensorProto.FLOAT, 3, SIDE, SIDE)],
        value_info("probabilities", TensorProto.FLOAT, 3),
        weights={"axes": np.array([2, 3])},
        task="image-classification",
        classes=COLOURS,
        thresholds=[0.8, 0.5, 0.5],
        preprocessing={
            "input": "images",
            "output": "probabilities",
            "channel_order": "RGB",
            "size": SIDE,
            "resize": "stretch",
            "labels_separator": ";",
        },
        **options,
    )


def save_shares(folder, classes, **options):
    """Reads the log odds of the second of two classes from the column `odds`."""
    nodes = [helper.make_node("Mul", ["numbers", "weights"], ["logits"])]
    preprocessing = {"output": "logits", "inputs": [{"name": "numbers", "columns": ["odds"]}]}
    return save(
        folder,
        nodes,
        [value_info("numbers", TensorProto.FLOAT, 1)],
        value_info("logits", TensorProto.FLOAT, 2),
        weights={"weights": np.array([0, 1], np.float32)},
        task="tabular-classification",
        classes=classes,
        preprocessing=preprocessing,
        **options,
    )


def write_shares(folder, shares):
    """Write a table in which the second class has these probabilities."""
    path = folder / "shares.csv"
    path.write_text("\n".join(["odds", *(str(np.log(p / (1 - p))) for p in shares)]))
    return path
