"""A BERT cross-encoder in torch, made from its int8 ONNX file, with heads for the answer's span and
for the topic; and back again.

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
_LAYER = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "o",
    "intermediate.dense": "up",
    "output.dense": "down",
}


def read_weights(path: Path, seed: int) -> Tensors:
    """The weights of a quantised model as float tensors.

    Args:
        path: the cross-encoder that the reader is made of, or a reader that `to_onnx` wrote.
        seed: of a new span head, where the model has none; a new topic head is all zeros.
    """
    graph = import_module("onnx").load(str(path)).graph
    made_here = any(one.name == "start" for one in graph.output)
    found: Tensors = _from_reader(graph) if made_here else from_onnx(path, seed)
    if "topic.weight" not in found:
        torch = import_module("torch")
        found |= {"topic.weight": torch.zeros(1, 384), "topic.bias": torch.zeros(1)}
    return found


def _from_reader(graph: Any) -> Tensors:
    """What `to_onnx` wrote: its names are those of the weights, with "w" before them."""
    torch, onnx = import_module("torch"), import_module("onnx")
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


def from_onnx(path: Path, seed: int) -> Tensors:
    """The weights of a quantised cross-encoder, as float tensors, and a new span head."""
    torch, onnx = import_module("torch"), import_module("onnx")
    graph = onnx.load(str(path)).graph
    raw = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    made_by = {name: node for node in graph.node for name in node.output}
    found: dict[str, Any] = {}
    for node in graph.node:
        for bias, product in zip(node.input, reversed(node.input), strict=True):
            if node.op_type != "Add" or len(node.input) != 2 or not _is_bias(bias, raw):
                continue
            name = _name(bias)
            found[f"{name}.bias"] = raw[bias]
            found[f"{name}.weight"] = _dequantised(made_by, raw, product).T
    for layer in range(LAYERS):
        for given, name in (("attention.output.LayerNorm", "n1"), ("output.LayerNorm", "n2")):
            for part in ("weight", "bias"):
                found[f"{layer}.{name}.{part}"] = raw[f"bert.encoder.layer.{layer}.{given}.{part}"]
    for part in ("weight", "bias"):
        found[f"norm.{part}"] = raw[f"bert.embeddings.LayerNorm.{part}"]
    for given in ("word", "position", "token_type"):
        base = f"bert.embeddings.{given}_embeddings.weight"
        found[given] = _floats(raw, base)
    found["span.weight"] = np.random.default_rng(seed).normal(0, 0.02, (2, 384))
    found["span.bias"] = np.zeros(2)
    return {
        name: torch.tensor(np.ascontiguousarray(value), dtype=torch.float32)
        for name, value in found.items()
    }


def forward(
    weights: Tensors, ids: Any, mask: Any, kinds: Any, *, frozen: int = 0, dropout: float = 0.0
) -> tuple[Any, Any, Any]:
    """Logits of the answer (one a pair), of its span (two a token) and of the topic (one a pair).

    Args:
        weights: as `read_weights` gives them, of any float type: the sums are of the same.
        ids: token ids, a row a pair.
        mask: 1 for tokens, 0 for padding.
        kinds: 0 for the question's tokens, 1 for the text's.
        frozen: so many layers from below are neither trained nor thinned by dropout.
        dropout: share of values set to 0 in the other layers.
    """
    hidden = trunk(weights, ids, mask, kinds, layers=frozen)
    return upper(weights, hidden, mask, first=frozen, dropout=dropout)


def trunk(weights: Tensors, ids: Any, mask: Any, kinds: Any, *, layers: int) -> Any:
    """What the lowest layers make of tokens, a row a token; nothing in them is trained.

    Args:
        weights: as of `forward`.
        ids: as of `forward`.
        mask: as of `forward`.
        kinds: as of `forward`.
        layers: how many, from below.
    """
    torch = import_module("torch")
    embedding = import_module("torch.nn.functional").embedding
    places = torch.arange(ids.shape[1], device=ids.device)[None]
    hidden = embedding(ids, weights["word"]) + embedding(places, weights["position"])
    hidden = hidden + embedding(kinds, weights["token_type"])
    hidden = _norm(weights, "norm", hidden)
    hidden_mask = _hidden_mask(mask, hidden)
    with torch.set_grad_enabled(False):
        for layer in range(layers):
            hidden = _layer(weights, str(layer), hidden, hidden_mask, 0.0)
    return hidden


def upper(
    weights: Tensors, hidden: Any, mask: Any, *, first: int, dropout: float = 0.0
) -> tuple[Any, Any, Any]:
    """What `forward` gives, from what `trunk` made.

    Args:
        weights: as of `forward`; those of the layers from ``first`` on and of the heads are used.
        hidden: a row a token.
        mask: as of `forward`.
        first: the lowest layer that is run.
        dropout: as of `forward`.
    """
    torch = import_module("torch")
    hidden_mask = _hidden_mask(mask, hidden)
    for layer in range(first, LAYERS):
        hidden = _layer(weights, str(layer), hidden, hidden_mask, dropout)
    pooled = _thinned(torch.tanh(_linear(weights, "pool", hidden[:, 0])), dropout)
    answer, topic = _linear(weights, "cls", pooled), _linear(weights, "topic", pooled)
    return answer, _linear(weights, "span", hidden), topic


def _hidden_mask(mask: Any, hidden: Any) -> Any:
    return (1.0 - mask[:, None, None, :].to(hidden.dtype)) * -10_000.0


def to_onnx(weights: Tensors, path: Path) -> None:
    """Writes the model in int8 with the outputs logits, start, end and topic."""
    torch, quantization = import_module("torch"), import_module("onnxruntime.quantization")

    def run(module: Any, ids: Any, mask: Any, kinds: Any) -> tuple[Any, ...]:
        fixed = {name: getattr(module, "w" + name.replace(".", "_")) for name in weights}
        logits, spans, topic = forward(fixed, ids, mask, kinds)
        readable = ((kinds == 1) & (mask == 1)).float()
        readable[:, 0] = 1.0  # the first token stands for "no answer"
        spans = spans + (readable[..., None] - 1.0) * 1e4
        return logits, spans[..., 0], spans[..., 1], topic

    module = type("Reader", (torch.nn.Module,), {"forward": run})()
    for name, value in weights.items():  # what is not registered would not be quantised
        module.register_buffer("w" + name.replace(".", "_"), value.detach())
    ids = torch.randint(1000, 2000, (2, 17))
    kinds = torch.zeros_like(ids)
    kinds[:, 8:] = 1
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    tokens = {name: {0: "batch", 1: "tokens"} for name in [*inputs, "start", "end"]}
    plain = path.with_suffix(".fp32.onnx")
    torch.onnx.export(
        module,
        (ids, torch.ones_like(ids), kinds),
        str(plain),
        input_names=inputs,
        output_names=["logits", "start", "end", "topic"],
        dynamic_axes={**tokens, "logits": {0: "batch"}, "topic": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )
    quantization.quantize_dynamic(
        str(plain),
        str(path),
        weight_type=quantization.QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gather"],
        per_channel=True,
    )
    plain.unlink()


def _is_bias(name: str, raw: dict[str, Any]) -> bool:
    return name in raw and name.endswith(".bias") and "LayerNorm" not in name


def _name(bias: str) -> str:
    plain = bias.removesuffix(".bias")
    if "layer." not in plain:
        return {"bert.pooler.dense": "pool", "classifier": "cls"}[plain]
    number, _, part = plain.split("layer.")[1].partition(".")
    return f"{number}.{_LAYER[part]}"


def _dequantised(made_by: dict[str, Any], raw: dict[str, Any], product: str) -> Any:
    """The weights of the MatMulInteger that a value comes from."""
    node = made_by[product]
    while node.op_type != "MatMulInteger":
        before = [made_by[name] for name in node.input if name in made_by]
        node = next(one for one in before if one.op_type in ("Cast", "MatMulInteger", "Mul"))
    return _floats(raw, node.input[1].removesuffix("_quantized"))


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
