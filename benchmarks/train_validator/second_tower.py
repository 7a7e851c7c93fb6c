"""A second tower on the reader's lowest layers, in one ONNX file with it.

The reader's own nodes and weights stay as they are: its outputs cannot change. The tower runs only
where the reader finds the passage on the topic, so that it costs little time. Needs torch and onnx,
which ragbench itself never does.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.train_validator.reader_model import Tensors, upper

OUTPUT = "answers"
"""The logit that the passage answers this question."""
_PREFIX = "second/"
ASKED_FROM = -3.0
"""Below that logit no chunk is relevant, whatever its words are: the tower need not run."""


def with_second_tower(
    model: Path,
    above: Tensors,
    shared: int,
    output: Path,
    *,
    shift: float = 0.0,
    weight: float | None = None,
    asked_from: float = ASKED_FROM,
) -> None:
    """Writes a reader with one more output.

    Args:
        model: the reader's ONNX file; a second tower that it has already is replaced.
        above: the tower's weights: the layers from ``shared`` on, and the heads.
        shared: so many layers from below serve both.
        output: the file to write.
        shift: what is added to the tower's logit.
        weight: None where the output is the tower's logit; else it is the reader's logit, and where
            the tower's is below 0, so many times that less.
        asked_from: logit of the reader above which the tower is run; below, its answer is the
            reader's.
    """
    onnx = import_module("onnx")
    whole = onnx.load(str(model))
    _drop_tower(whole.graph)
    quantised = output.with_suffix(".tower.onnx")
    moved = {**above, "cls.bias": above["cls.bias"] + shift}
    _tower_to_onnx(moved, shared, quantised)
    tower = onnx.load(str(quantised)).graph
    quantised.unlink()
    hidden = output_of_layer(whole.graph, shared - 1)
    _rename(tower, {"hidden": hidden, "attention_mask": "attention_mask", "": ""})
    whole.graph.initializer.extend(tower.initializer)
    helper, kinds = onnx.helper, onnx.TensorProto
    logits = next(one.name for one in whole.graph.output if one.name == "logits")
    shape = ["batch", 1]

    def branch(name: str, nodes: Any, result: str) -> Any:
        told = helper.make_tensor_value_info(result, kinds.FLOAT, shape)
        return helper.make_graph(nodes, name, [], [told])

    nodes, told = list(tower.node), f"{_PREFIX}{OUTPUT}"
    if weight is not None:
        nodes, told = [*nodes, *_taken_off(whole.graph, told, logits, weight)], f"{_PREFIX}less"
    same = helper.make_node("Identity", [logits], [f"{_PREFIX}same"])
    limit = helper.make_tensor(f"{_PREFIX}asked_from", kinds.FLOAT, [], [asked_from])
    whole.graph.initializer.append(limit)
    whole.graph.node.extend(
        [
            helper.make_node("ReduceMax", [logits], [f"{_PREFIX}best"], keepdims=0),
            helper.make_node("Greater", [f"{_PREFIX}best", limit.name], [f"{_PREFIX}asked"]),
            helper.make_node(
                "If",
                [f"{_PREFIX}asked"],
                [OUTPUT],
                then_branch=branch("tower", nodes, told),
                else_branch=branch("none", [same], f"{_PREFIX}same"),
            ),
        ]
    )
    whole.graph.output.append(helper.make_tensor_value_info(OUTPUT, kinds.FLOAT, shape))
    onnx.checker.check_model(whole)
    onnx.save(whole, str(output))


def _drop_tower(graph: Any) -> None:
    """Makes of a reader what it was before it was given a second tower."""
    for entries, names in (
        (graph.node, lambda one: one.output),
        (graph.initializer, lambda one: [one.name]),
        (graph.output, lambda one: [one.name]),
    ):
        kept = [one for one in entries if not any(map(is_towers, names(one)))]
        del entries[:]
        entries.extend(kept)


def is_towers(name: str) -> bool:
    return name == OUTPUT or name.startswith(_PREFIX)


def _taken_off(graph: Any, tower: str, logits: str, weight: float) -> list[Any]:
    """Nodes that take from the reader's logit what the tower's lacks."""
    helper, kinds = import_module("onnx").helper, import_module("onnx").TensorProto
    zero, times = f"{_PREFIX}zero", f"{_PREFIX}weight"
    graph.initializer.append(helper.make_tensor(zero, kinds.FLOAT, [], [0.0]))
    graph.initializer.append(helper.make_tensor(times, kinds.FLOAT, [], [weight]))
    return [
        helper.make_node("Min", [tower, zero], [f"{_PREFIX}lacks"]),
        helper.make_node("Mul", [f"{_PREFIX}lacks", times], [f"{_PREFIX}taken"]),
        helper.make_node("Add", [logits, f"{_PREFIX}taken"], [f"{_PREFIX}less"]),
    ]


def _rename(tower: Any, joined: dict[str, str]) -> None:
    """Names of the tower's own, but for what it shares."""

    def named(name: str) -> str:
        return joined.get(name, _PREFIX + name)

    for weight in tower.initializer:
        weight.name = named(weight.name)
    for node in tower.node:
        node.name = _PREFIX + node.name
        for names in (node.input, node.output):
            names[:] = [named(name) for name in names]


def output_of_layer(graph: Any, layer: int) -> str:
    """The name of what a layer hands on: its second norm's output."""
    (found,) = [
        node.output[0]
        for node in graph.node
        if node.op_type == "LayerNormalization" and node.input[1] == f"w{layer}_n2_weight"
    ]
    return str(found)


def _tower_to_onnx(above: Tensors, shared: int, path: Path) -> None:
    """The tower alone in int8, from the shared layers' output and the mask to its logit."""
    torch, quantization = import_module("torch"), import_module("onnxruntime.quantization")

    def run(module: Any, hidden: Any, mask: Any) -> Any:
        fixed = {name: getattr(module, "w" + name.replace(".", "_")) for name in above}
        return upper(fixed, hidden, mask, first=shared)[0]

    module = type("Tower", (torch.nn.Module,), {"forward": run})()
    for name, value in above.items():  # what is not registered would not be quantised
        module.register_buffer("w" + name.replace(".", "_"), value.detach().float())
    plain = path.with_suffix(".fp32.onnx")
    tokens = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        module,
        (torch.randn(2, 17, 384), torch.ones(2, 17, dtype=torch.long)),
        str(plain),
        input_names=["hidden", "attention_mask"],
        output_names=[OUTPUT],
        dynamic_axes={"hidden": tokens, "attention_mask": tokens, OUTPUT: {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )
    quantization.quantize_dynamic(
        str(plain),
        str(path),
        weight_type=quantization.QuantType.QInt8,
        op_types_to_quantize=["MatMul"],
        per_channel=True,
    )
    plain.unlink()
