"""Writes changed weights into a reader's ONNX file: no node changes, nor does its size.

The second tower and the early end of `early_exit.py` stay as they are. Needs onnx and torch, which
ragbench itself never does.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.train_validator.reader_model import Tensors, all_nodes, biased


def graft(model: Path, weights: Tensors, output: Path) -> None:
    """Puts weights in the place of those of the same name.

    Args:
        model: the reader's ONNX file.
        weights: as `reader_model.read_weights` names them; those that are not given stay.
        output: the file to write.

    Raises:
        ValueError: a weight has another shape, or is quantised about another zero.
    """
    onnx = import_module("onnx")
    whole = onnx.load(str(model))
    stored = {one.name: one for one in whole.graph.initializer}
    products = _products(whole.graph)
    for name, tensor in weights.items():
        value, own = tensor.detach().float().numpy(), "w" + name.replace(".", "_")
        product = products.get(own.removesuffix("_weight") + "_bias")
        if name.endswith(".bias") or product is None:
            _put(stored[own], value)
        elif product.op_type == "MatMul":
            _put(stored[product.input[1]], value.T)
        else:
            _put_quantised(stored, product.input[1].removesuffix("_quantized"), value.T)
    onnx.checker.check_model(whole)
    onnx.save(whole, str(output))


def _products(graph: Any) -> dict[str, Any]:
    """By the name of a bias the node that multiplies with the weights that it belongs to."""
    nodes = all_nodes(graph)
    made_by = {name: node for node in nodes for name in node.output}
    return {bias: _product(made_by, product) for node in nodes for bias, product in biased(node)}


def _product(made_by: dict[str, Any], name: str) -> Any:
    node = made_by[name]
    while node.op_type not in ("MatMulInteger", "MatMul"):
        before = [made_by[one] for one in node.input if one in made_by]
        node = next(
            one for one in before if one.op_type in ("Cast", "MatMulInteger", "Mul", "MatMul")
        )
    return node


def _put(place: Any, value: Any) -> None:
    helper = import_module("onnx").numpy_helper
    before = helper.to_array(place)
    if before.shape != value.shape:
        raise ValueError(f"{place.name}: {value.shape} instead of {before.shape}")
    place.CopyFrom(helper.from_array(np.ascontiguousarray(value.astype(before.dtype)), place.name))


def _put_quantised(stored: dict[str, Any], base: str, value: Any) -> None:
    """Each column in 255 steps of its own, about 0: as `quantize_dynamic` had written it."""
    zero = import_module("onnx").numpy_helper.to_array(stored[f"{base}_zero_point"])
    if zero.any():
        raise ValueError(f"{base} is quantised about {zero[:3]}...")
    scale = np.abs(value).max(0) / 127
    scale[scale == 0] = 1
    _put(stored[f"{base}_scale"], scale)
    _put(stored[f"{base}_quantized"], np.clip(np.round(value / scale), -127, 127))
