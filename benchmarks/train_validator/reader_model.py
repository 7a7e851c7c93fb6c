"""The reader, a BERT cross-encoder, in torch: weights from its int8 ONNX file, and what it says.

Functions over a mapping of tensors. Needs torch and onnx, which ragbench itself never does.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Tensors = dict[str, Any]
HEADS, LAYERS = 12, 12


def read_weights(path: Path) -> Tensors:
    """The weights of a reader as float tensors; its names are theirs, with "w" before them."""
    torch, onnx = import_module("torch"), import_module("onnx")
    graph = onnx.load(str(path)).graph
    raw = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    nodes = all_nodes(graph)
    made_by = {name: node for node in nodes for name in node.output}
    found: dict[str, Any] = {}
    for node in nodes:
        for bias, product in biased(node):
            if bias in raw:
                name = _reader_name(bias.removesuffix("_bias"))
                found[f"{name}.bias"] = raw[bias]
                found[f"{name}.weight"] = _multiplied(made_by, raw, product).T
        if node.op_type == "LayerNormalization":
            name = _reader_name(node.input[1].removesuffix("_weight"))
            found[f"{name}.weight"], found[f"{name}.bias"] = raw[node.input[1]], raw[node.input[2]]
    for name in ("word", "position", "token_type"):
        found[name] = raw[f"w{name}"] if f"w{name}" in raw else _floats(raw, f"w{name}")
    return {
        name: torch.tensor(np.ascontiguousarray(value), dtype=torch.float32)
        for name, value in found.items()
    }


def all_nodes(graph: Any) -> list[Any]:
    """Those of a reader, with the upper layers that `early_exit.py` puts in a branch."""
    ended = [one for one in graph.node if one.op_type == "If" and "logits" in one.output]
    return [*graph.node, *(node for one in ended for part in one.attribute for node in part.g.node)]


def biased(node: Any) -> Iterator[tuple[str, str]]:
    """The names of a bias and of what it is added to."""
    if node.op_type == "Add":
        for bias, product in zip(node.input, reversed(node.input), strict=True):
            if bias.startswith("w") and bias.endswith("_bias"):
                yield bias, product


def _reader_name(stored: str) -> str:
    return stored[1:].replace("_", ".") if stored[1].isdigit() else stored[1:]


def _multiplied(made_by: dict[str, Any], raw: dict[str, Any], product: str) -> Any:
    """The weights that a value was multiplied with, quantised or not."""
    node = made_by[product]
    while node.op_type not in ("MatMulInteger", "MatMul"):
        before = [made_by[name] for name in node.input if name in made_by]
        node = next(
            one for one in before if one.op_type in ("Cast", "MatMulInteger", "Mul", "MatMul")
        )
    if node.op_type == "MatMul":
        return raw[node.input[1]]
    return _floats(raw, node.input[1].removesuffix("_quantized"))


def forward(
    weights: Tensors, ids: Any, mask: Any, kinds: Any, *, dropout: float = 0.0
) -> tuple[Any, Any]:
    """Logits of the answer (one a pair) and of its span (two a token).

    Args:
        weights: as `read_weights` gives them, of any float type: the sums are of the same.
        ids: token ids, a row a pair.
        mask: 1 for tokens, 0 for padding.
        kinds: 0 for the question's tokens, 1 for the text's.
        dropout: share of values set to 0 in the layers.
    """
    torch = import_module("torch")
    embedding = import_module("torch.nn.functional").embedding
    places = torch.arange(ids.shape[1], device=ids.device)[None]
    hidden = embedding(ids, weights["word"]) + embedding(places, weights["position"])
    hidden = _norm(weights, "norm", hidden + embedding(kinds, weights["token_type"]))
    return upper(weights, hidden, mask, first=0, dropout=dropout)


def upper(
    weights: Tensors, hidden: Any, mask: Any, *, first: int, dropout: float = 0.0
) -> tuple[Any, Any]:
    """What `forward` gives, from what the layers below ``first`` made, a row a token."""
    torch = import_module("torch")
    hidden_mask = _hidden_mask(mask, hidden)
    for layer in range(first, LAYERS):
        hidden = _layer(weights, str(layer), hidden, hidden_mask, dropout)
    pooled = _thinned(torch.tanh(_linear(weights, "pool", hidden[:, 0])), dropout)
    return _linear(weights, "cls", pooled), _linear(weights, "span", hidden)


def _hidden_mask(mask: Any, hidden: Any) -> Any:
    return (1.0 - mask[:, None, None, :].to(hidden.dtype)) * -10_000.0


def _floats(raw: dict[str, Any], base: str) -> Any:
    zero = raw[f"{base}_zero_point"].astype(np.float32)
    return (raw[f"{base}_quantized"].astype(np.float32) - zero) * raw[f"{base}_scale"]


def _linear(weights: Tensors, name: str, value: Any) -> Any:
    functional = import_module("torch.nn.functional")
    return functional.linear(value, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _norm(weights: Tensors, name: str, value: Any) -> Any:
    functional = import_module("torch.nn.functional")
    size = tuple(weights[f"{name}.weight"].shape)
    return functional.layer_norm(
        value, size, weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12
    )


def _thinned(value: Any, rate: float) -> Any:
    return import_module("torch.nn.functional").dropout(value, rate, training=rate > 0)


def _layer(weights: Tensors, at: str, hidden: Any, mask: Any, rate: float) -> Any:
    """One layer. Attention is plain products: torch's fused one trains at half the speed here."""
    torch = import_module("torch")
    pairs, tokens = hidden.shape[:2]
    size = weights[f"{at}.q.bias"].shape[0]

    def heads(name: str) -> Any:
        value = _linear(weights, f"{at}.{name}", hidden)
        return value.view(pairs, tokens, HEADS, size // HEADS).transpose(1, 2)

    scores = heads("q") * (size // HEADS) ** -0.5 @ heads("k").transpose(2, 3)
    shares = torch.softmax(scores + mask.to(scores.dtype), -1, dtype=scores.dtype)
    mixed = (_thinned(shares, rate / 2) @ heads("v")).transpose(1, 2).reshape(pairs, tokens, size)
    mixed = _thinned(_linear(weights, f"{at}.o", mixed), rate)
    hidden = _norm(weights, f"{at}.n1", hidden + mixed)
    gelu = import_module("torch.nn.functional").gelu
    wide = _linear(weights, f"{at}.down", gelu(_linear(weights, f"{at}.up", hidden)))
    return _norm(weights, f"{at}.n2", hidden + _thinned(wide, rate))
