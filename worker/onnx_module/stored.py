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


def drop_unread(model: onnx.ModelProto) -> None:
    """Remove nodes whose outputs nothing reads, such as the rest of a softmax."""
    while True:
        read = {name for node in model.graph.node for name in _names_read(node)}
        read |= {value.name for value in model.graph.output}
        unread = [node for node in model.graph.node if not read & set(node.output)]
        if not unread:
            return
        for node in unread:
            model.graph.node.remove(node)


def _names_read(node: onnx.NodeProto) -> set[str]:
    inner = (one.g for one in node.attribute if one.HasField("g"))
    names = {
        name
        for graph in inner
        for name in (
            *(value.name for value in graph.output),
            *(read for one in graph.node for read in _names_read(one)),
        )
    }
    return names | set(node.input)


def _find_names(graph: onnx.GraphProto) -> set[str]:
    names = {one.name for one in (*graph.initializer, *graph.input, *graph.output)}
    for node in graph.node:
        names.update(node.input, node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= _find_names(attribute.g)
    return names
