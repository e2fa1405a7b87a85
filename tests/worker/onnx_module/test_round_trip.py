"""Networks of torch that are exported and come back as ONNX files, before anything is trained.

The exporter merges a batch norm into the convolution in front of it. The file then computes what
the network computes with this batch norm in evaluation, so that is what the first step is compared
with.
"""

import onnx
import pytest
import torch
from torch import nn

from redkiln.spec.image_models import Model, Options
from redkiln.spec.tabular import TabularModel
from worker.export.onnx_file import write_onnx
from worker.onnx_module.classifier import read_classifier
from worker.onnx_module.module import OnnxModule
from worker.tasks.image_classification.exported import make_exportable
from worker.tasks.tabular.exported import make_table_exportable
from worker.trainer.models import build_model
from worker.trainer.models.from_transformers import complete_config
from worker.trainer.models.table_network import TableShape
from worker.trainer.models.tabular import build_tabular_model
from worker.trainer.tables.table import learn_preparation, load_table

SIZE = 32
CONFIGS = {
    "vit": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    | {"intermediate_size": 32, "patch_size": 8},
    "convnext": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "patch_size": 2},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.2, "hidden_dim": 320}
    | {"dropout_rate": 0.0, "drop_connect_rate": 0.0},
    "swin": {"embed_dim": 16, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}
    | {"patch_size": 2, "drop_path_rate": 0.0},
    "regnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8},
    "dinov2": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    | {"patch_size": 8},
}
BUILT_IN = ["mnist-cnn", "amdnet", "cifar-fast", "resnet18", "small-cnn"]
KEPT = {"unmerged": 2, "cifar-fast": 3}
"""Networks with batch norms that stay apart in the file, because no convolution is in front."""
UNPACKED = "unsqueeze"
"""What the exporter calls Swin's biases of relative positions, of which it makes one for each pair
of positions."""
ADDED = "_bias"
"""What the exporter adds to a kernel's name for the bias of its merged batch norm."""


def build(name):
    options = Options(image_size=SIZE, channels=3, dropout=0.0)
    source = "transformers" if name in CONFIGS else "builtin"
    model = Model(source=source, name=name, options=options, config=CONFIGS.get(name, {}))
    if source == "transformers":
        facts = {"image_size": SIZE, "channels": 3, "num_classes": 10}
        model.config = complete_config(model, None, **facts)
    return build_model(model, num_classes=10)


class Unmerged(nn.Sequential):
    """Batch norms that no convolution precedes, so that the exporter keeps them."""

    def __init__(self):
        super().__init__(
            nn.BatchNorm2d(3),
            nn.Conv2d(3, 4, 3),
            nn.ReLU(),
            nn.BatchNorm2d(4),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 10),
        )


def stir(network):
    """Give vectors and statistics other values, as training does.

    The exporter stores equal vectors once, so new ones would come back under the name of another.
    """
    for norm in norms_of(network):
        nn.init.normal_(norm.running_mean, 0, 0.1)
        nn.init.uniform_(norm.running_var, 0.5, 2)
    for parameter in network.parameters():
        if parameter.ndim == 1 or (parameter == parameter.flatten()[0]).all():
            parameter.data += 0.1 * torch.randn_like(parameter)


def norms_of(network):
    return [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]


def find_merged(original, names):
    """Each convolution whose batch norm became part of it in the file, with that batch norm."""
    modules = dict(original.named_modules())
    added = {name.removesuffix(f".weight{ADDED}") for name in names if name.endswith(ADDED)}
    found, waiting = {}, None
    for name, module in modules.items():
        if name in added:
            waiting = name
        elif isinstance(module, nn.BatchNorm2d) and waiting is not None:
            found[waiting] = module
            waiting = None
    assert found.keys() == added
    return found


def map_gradients(original, merged):
    """What the gradients of the file's weights should be, by their names."""
    wanted = {
        name: (parameter.detach(), parameter.grad)
        for name, parameter in original.named_parameters()
        if parameter.grad is not None  # the token of masks, which classifying does not use
    }
    names = {id(parameter): name for name, parameter in original.named_parameters()}
    for name, norm in merged.items():
        for parameter in norm.parameters():
            del wanted[names[id(parameter)]]
        kernel, gradient = wanted[f"{name}.weight"]
        factor = (norm.weight / (norm.running_var + norm.eps).sqrt()).detach()
        shape = (-1, 1, 1, 1)
        wanted[f"{name}.weight"] = kernel * factor.view(shape), gradient / factor.view(shape)
        shift = (norm.bias - norm.running_mean * factor).detach()
        wanted[f"{name}.weight{ADDED}"] = shift, norm.bias.grad
    return wanted


@pytest.mark.parametrize("name", ["unmerged", *BUILT_IN, *CONFIGS])
def test_an_exported_network_comes_back_and_takes_the_same_first_step(tmp_path, name):
    torch.manual_seed(0)
    network = Unmerged() if name == "unmerged" else build(name)
    stir(network)
    facts = {"mean": [0.4] * 3, "std": [0.3] * 3, "image_size": SIZE}
    exportable = make_exportable(network, architecture={}, **facts)
    write_onnx(exportable, tmp_path / "net.onnx", opset=20, metadata={})
    found = read_classifier(tmp_path / "net.onnx")
    assert not any("symbolic" in note for note in found.notes)
    module = OnnxModule(found.model).eval()
    original = exportable.module.requires_grad_(True).eval()
    x, labels = torch.rand(4, 3, SIZE, SIZE), torch.arange(4)
    torch.testing.assert_close(module(x), original(x), rtol=1e-3, atol=1e-4)

    # In double precision, because rounding grows over the layers of resnet18 to 0.3 %.
    original, module, x = original.double(), module.double(), x.double()
    merged = find_merged(original, module.names.values())
    assert len(module.norms) == KEPT.get(name, 0)
    assert len(module.norms) + len(merged) == len(norms_of(original))
    for one in (original.train(), module.train()):
        for norm in merged.values():
            norm.eval()
        nn.functional.cross_entropy(one(x), labels).backward()
    kept = [norm for norm in norms_of(original) if norm.training]
    for ours, theirs in zip(module.norms.values(), kept, strict=True):
        torch.testing.assert_close(ours.running_var, theirs.running_var)
    wanted = map_gradients(original, merged)
    compare_gradients(module, wanted)
    if name in BUILT_IN:
        # There the whitening of cifar-fast is a kernel like others, not a parameter.
        fixed = {buffer for buffer, _ in original.named_buffers()}
        trained = {module.names[key] for key, _ in module.named_parameters()}
        assert trained - fixed == wanted.keys()
    else:
        compare_sizes(module, wanted)


def compare_gradients(module, wanted):
    """Compare the gradients of all weights that keep their names."""
    ours = {module.names[key]: p for key, p in module.named_parameters() if p.grad is not None}
    for name in ours.keys() & wanted.keys():
        value, gradient = wanted[name]
        torch.testing.assert_close(ours[name].detach(), value, rtol=1e-3, atol=1e-5)
        scale = gradient.abs().max()
        assert (ours[name].grad - gradient).abs().max() <= 1e-3 * scale + 1e-6, name


def compare_sizes(module, wanted):
    """Compare norms of gradients: matrices may be stored transposed under other names."""
    trained = {module.names[key]: p for key, p in module.named_parameters() if p.grad is not None}
    kept = [p.grad.norm() for name, p in trained.items() if not name.startswith(UNPACKED)]
    ours = torch.stack(kept)
    theirs = torch.stack([gradient.norm() for _, gradient in wanted.values()])
    # The exporter computes some constants ahead, so a gradient of torch may have no counterpart.
    assert len(ours) > 0.8 * len(theirs)
    nearest = (ours[:, None] - theirs).abs().amin(1)
    assert (nearest <= 1e-3 * ours + 1e-5).all()


def come_back(exportable, path, *, trains=True):
    """Export a network without images and read it; its module, and torch's first gradients.

    Args:
        trains: Whether both are in training mode; `tabm` then returns the logits of each member.
    """
    write_onnx(exportable, path, opset=20, metadata={})
    module = OnnxModule(onnx.load(path))
    original = exportable.module.requires_grad_(True)
    inputs = [exportable.examples[name] for name in module.graph.inputs]
    torch.testing.assert_close(
        module.eval()(*inputs), original.eval()(*inputs), rtol=1e-3, atol=1e-4
    )
    for one in (original.train(trains), module.train(trains)):
        logits = one(*inputs)
        nn.functional.cross_entropy(logits, torch.arange(len(logits)) % 2).backward()
    wanted = {
        name: (p.detach(), p.grad) for name, p in original.named_parameters() if p.grad is not None
    }
    return module, wanted


@pytest.mark.parametrize("name", ["tabm", "mlp", "linear"])
def test_a_network_of_a_table_comes_back_and_takes_the_same_first_step(tmp_path, write_table, name):
    table = load_table(write_table())
    preparation = learn_preparation(table)
    categories = [len(column.categories) for column in table.categorical]
    numbers = preparation.num_numbers
    shape = TableShape(num_numbers=numbers, num_categories=categories, num_classes=2)
    options = {} if name == "linear" else {"hidden": [8], "dropout": 0.0, "embedding_size": 3}
    options |= {"members": 4} if name == "tabm" else {}
    model = TabularModel.model_validate({"name": name, "options": options})
    torch.manual_seed(0)
    network = build_tabular_model(model, shape)
    stir(network)
    facts = {"target": None, "architecture": {}}
    exportable = make_table_exportable(network, shape, preparation, **facts)
    trains = name != "tabm"
    compare_gradients(*come_back(exportable, tmp_path / "net.onnx", trains=trains))


def test_a_network_of_texts_comes_back_and_takes_the_same_first_step(tmp_path):
    from worker.tasks.text_classification.exported import make_text_exportable
    from worker.trainer.text.network import build_network

    config = {"model_type": "distilbert", "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}
    config |= {"vocab_size": 50, "max_position_embeddings": 16, "pad_token_id": 0, "num_labels": 2}
    config |= {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}
    torch.manual_seed(0)
    network = build_network(config)
    stir(network)
    exportable = make_text_exportable(network, config=config, max_length=16)
    module, wanted = come_back(exportable, tmp_path / "net.onnx")
    # torch never changes the vector of padding; ONNX has no such rule.
    padding = torch.nn.functional.one_hot(torch.tensor(config["pad_token_id"]), 50).bool()
    for key, parameter in module.named_parameters():
        if "word_embeddings" in module.names[key]:
            parameter.grad[padding] = 0
    compare_gradients(module, wanted)
    compare_sizes(module, wanted)
