"""The tensors that a file stores by name, in initialisers and in Constant nodes."""

import onnx


def find_stored(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """Return the stored tensors by the names that nodes read; changing one changes the file."""
    found = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            tensors = [one.t for one in node.attribute if one.name == "value"]
            found.update(zip(node.output, tensors, strict=False))
    return found


def find_free_name(model: onnx.ModelProto, wanted: str) -> str:
    """Return a name that no value of the graph or of its subgraphs has yet."""
    taken = _find_names(model.graph)
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


def _find_names(graph: onnx.GraphProto) -> set[str]:
    names = {one.name for one in (*graph.initializer, *graph.input, *graph.output)}
    for node in graph.node:
        names.update(node.input, node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= _find_names(attribute.g)
    return names
