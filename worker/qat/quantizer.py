"""Which values a network rounds to int8 so that ONNX Runtime computes all its layers in int8."""

import torch
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, get_input_act_qspec
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    QUANT_ANNOTATION_KEY,
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)

ADDITIONS = (torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor)


class OnnxQuantizer(X86InductorQuantizer):  # type: ignore[misc]
    """Rounds what torchao rounds for its own kernels on x86, and both terms of an addition.

    Torch's kernels compute a convolution and the addition behind it as one, so torchao leaves the
    value between them in float32. ONNX Runtime needs an int8 result to compute a convolution in
    int8. Without it each last layer of a residual block stayed in float32, and its weights were
    converted to float32 in each call: the int8 file of a ResNet-18 took 2.7 times as long as its
    float32 file.
    """

    def __init__(self) -> None:
        super().__init__()
        # Activations use 7 bits, because CPUs without VNNI add int8 products up in 16 bits.
        self._config = get_default_x86_inductor_quantization_config(is_qat=True, reduce_range=True)
        self.set_global(self._config)

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Note at each node of a traced network which of its values are rounded."""
        found: torch.fx.GraphModule = super().annotate(model)
        for node in found.graph.nodes:
            is_addition = node.op == "call_function" and node.target in ADDITIONS
            terms = [term for term in node.args if isinstance(term, torch.fx.Node)]
            if is_addition and len(terms) == 2 and QUANT_ANNOTATION_KEY not in node.meta:
                self._annotate_addition(node, terms)
        return found

    def _annotate_addition(self, node: torch.fx.Node, terms: list[torch.fx.Node]) -> None:
        rounded = get_input_act_qspec(self._config)
        node.meta[QUANT_ANNOTATION_KEY] = QuantizationAnnotation(
            input_qspec_map=dict.fromkeys(terms, rounded), _annotated=True
        )

    def _annotate_qat_conv2d_bn_binary_unary(self, *_: object) -> None:
        """Leave a convolution with batch norm, an addition and an activation to its parts."""

    def _annotate_qat_conv2d_bn_binary(self, *_: object) -> None:
        """Leave a convolution with batch norm and an addition to its parts."""

    def _annotate_conv2d_binary_unary(self, *_: object) -> None:
        """Leave a convolution, an addition and an activation to its parts."""

    def _annotate_conv2d_binary(self, *_: object) -> None:
        """Leave a convolution and an addition to its parts."""
