"""Lets the reader end in the middle where nothing answers: ``python -m
benchmarks.train_validator.early_exit DATA_DIR --extra EXTRA --output FILE``.

Nearly all chunks of a pool end far below any threshold, and half of the layers tell most of them. A
line through what the first token is after those layers guesses the reader's logit; it is fitted to
the reader itself, on pools of squad2_dev_half's training articles and on pairs that the reader
learned from, and needs no label. Below the limit the guess is the logit and the other layers do not
run. Needs onnx and onnxruntime; EXTRA is that of `reader_pairs`.
"""

from __future__ import annotations

import argparse
import random
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.train_validator.logistic_fit import Matrix
from benchmarks.train_validator.reader_pairs import all_pairs
from benchmarks.train_validator.second_tower import is_towers, output_of_layer
from benchmarks.validation_pools import PROTOCOLS, build_pools, squad_half
from ragbench.text.onnx_model import OnnxTextModel
from ragbench.validators.local import shipped_reader

LAYERS = 6
LIMIT = -6.2
"""Of guesses; none of the 4,393 pairs that the whole reader puts above `HIGH` lies below."""
PENALTY = 30.0
HIGH, HIGH_WEIGHT = -3.0, 12.0
"""Where a guess must not be too low, and how much more such pairs count."""
PREFIX = "early/"
PAIRS, MOST_TOKENS = 7000, 512
"""Of pools."""
OTHER_PAIRS = {"pages": 3500, "searched": 2000, "everyday": 2500}
"""Of help pages, of questions of a search engine, and of daily work: of pools alone, it guesses too
low of short answers to "how"."""
OUTPUTS = {"logits": ["batch", 1], "start": ["batch", "tokens"], "end": ["batch", "tokens"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--extra", type=Path, required=True, help="folder with repositories/")
    parser.add_argument("--output", type=Path, required=True, help="the ONNX file to write")
    given = parser.parse_args()
    first, logits = _first_tokens(_pairs(given.data, given.extra), given.output)
    slopes, bias = _line(first, logits)
    guesses = first @ slopes + bias
    with_early_exit(shipped_reader().model, slopes, bias, given.output)
    ends = guesses < LIMIT
    print(f"{ends.mean():.2f} of {len(ends)} end early, {logits[ends].max():.1f} the highest logit")


def _pairs(data: Path, extra: Path) -> list[tuple[str, str]]:
    pools = build_pools(squad_half(data, held_out=False), PROTOCOLS, limit=250, seed=5)
    pairs = list(dict.fromkeys((p.question.text, c.text) for p in pools for c in p.chunks))
    random.Random(1).shuffle(pairs)
    sets = all_pairs(data, extra)
    others = [
        (one.query, one.text)
        for name, count in OTHER_PAIRS.items()
        for one in random.Random(1).sample(sets[name], count)
    ]
    return [*pairs[:PAIRS], *others]


def _first_tokens(pairs: list[tuple[str, str]], output: Path) -> tuple[Matrix, Matrix]:
    """What the first token is after `LAYERS` layers, and the reader's logit, a row a pair."""
    onnx = import_module("onnx")
    model = onnx.load(str(shipped_reader().model))
    _drop_exit(model.graph)
    hidden = output_of_layer(model.graph, LAYERS - 1)
    del model.graph.output[1:]
    model.graph.output.append(
        onnx.helper.make_tensor_value_info(hidden, onnx.TensorProto.FLOAT, None)
    )
    onnx.save(model, str(output))
    reader = OnnxTextModel(output, shipped_reader().tokenizer, kind="reader")
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(
            lambda pair: reader.run(reader.encode(*pair), max_length=MOST_TOKENS), pairs
        )
        rows = [(tokens[0], float(logit[0])) for logit, tokens in found]
    return np.array([one for one, _ in rows]), np.array([one for _, one in rows])


def _line(first: Matrix, logits: Matrix) -> tuple[Matrix, float]:
    """Least squares with a penalty on the slopes of standardised numbers."""
    mean, scale = first.mean(axis=0), first.std(axis=0) + 1e-6
    inputs = np.c_[(first - mean) / scale, np.ones(len(first))]
    penalty = PENALTY * np.eye(inputs.shape[1])
    weights = np.where(logits > HIGH, HIGH_WEIGHT, 1.0)
    # How far below or above the thresholds a logit lies does not matter.
    aims = inputs.T @ (np.clip(logits, -9, 2) * weights)
    found = np.linalg.solve(inputs.T @ (inputs * weights[:, None]) + penalty, aims)
    slopes = found[:-1] / scale
    return slopes, float(found[-1] - slopes @ mean)


def with_early_exit(model: Path, slopes: Matrix, bias: float, output: Path) -> None:
    """Writes a reader whose layers from `LAYERS` on run only where the guess reaches `LIMIT`."""
    onnx = import_module("onnx")
    whole = onnx.load(str(model))
    graph, helper = whole.graph, onnx.helper
    _drop_exit(graph)
    hidden = output_of_layer(graph, LAYERS - 1)
    below = _made_for(graph, hidden)
    tower = [node for node in graph.node if is_towers(node.output[0])]
    plain = [node for node in graph.node if node not in tower]
    upper = [node for node in plain if not below.intersection(node.output)]
    _rename(upper, {name: PREFIX + name for name in OUTPUTS})

    def kept(name: str, value: Any) -> str:
        graph.initializer.append(onnx.numpy_helper.from_array(value, PREFIX + name))
        return PREFIX + name

    def node(kind: str, inputs: list[str], name: str, **settings: Any) -> Any:
        return helper.make_node(kind, inputs, [PREFIX + name], **settings)

    def branch(name: str, nodes: list[Any], results: list[str]) -> Any:
        kind, shapes = onnx.TensorProto.FLOAT, OUTPUTS.values()
        told = [
            helper.make_tensor_value_info(PREFIX + one, kind, shape)
            for one, shape in zip(results, shapes, strict=True)
        ]
        return helper.make_graph(nodes, name, [], told)

    line = [
        kept("weight", slopes.astype(np.float32)[:, None]),
        kept("bias", np.array([bias], np.float32)),
    ]
    guess = [
        node("Gather", [hidden, kept("place", np.int64(0))], "first", axis=1),
        node("Gemm", [f"{PREFIX}first", *line], "guess"),
        node("ReduceMax", [f"{PREFIX}guess"], "best", keepdims=0),
        node("Greater", [f"{PREFIX}best", kept("limit", np.float32(LIMIT))], "goes_on"),
    ]
    nowhere = [
        node("Identity", [f"{PREFIX}guess"], "told"),
        node("Cast", ["attention_mask"], "mask", to=onnx.TensorProto.FLOAT),
        *(
            node("Mul", [f"{PREFIX}mask", f"{PREFIX}nothing"], one)
            for one in ("no_start", "no_end")
        ),
    ]
    kept("nothing", np.float32(0))
    choice = helper.make_node(
        "If",
        [f"{PREFIX}goes_on"],
        list(OUTPUTS),
        then_branch=branch("upper", upper, list(OUTPUTS)),
        else_branch=branch("guessed", nowhere, ["told", "no_start", "no_end"]),
    )
    lower = [one for one in plain if below.intersection(one.output)]
    del graph.node[:]
    graph.node.extend([*lower, *guess, choice, *tower])
    onnx.checker.check_model(whole)
    onnx.save(whole, str(output))


def without_early_exit(model: Path, output: Path) -> None:
    """Writes a reader as it was before it could end early."""
    onnx = import_module("onnx")
    whole = onnx.load(str(model))
    _drop_exit(whole.graph)
    onnx.save(whole, str(output))


def _drop_exit(graph: Any) -> None:
    """Makes of a reader what it was before it could end early."""
    choice = next(
        (one for one in graph.node if "logits" in one.output and one.op_type == "If"), None
    )
    if choice is None:
        return
    upper = next(part.g.node for part in choice.attribute if part.name == "then_branch")
    _rename(upper, {PREFIX + name: name for name in OUTPUTS})
    tower = [node for node in graph.node if is_towers(node.output[0])]
    lower = [node for node in graph.node if node != choice and node not in tower]
    kept = [node for node in lower if not node.output[0].startswith(PREFIX)]
    kept = [*kept, *upper, *tower]
    weights = [one for one in graph.initializer if not one.name.startswith(PREFIX)]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(weights)


def _rename(nodes: Any, joined: dict[str, str]) -> None:
    for node in nodes:
        for names in (node.input, node.output):
            names[:] = [joined.get(name, name) for name in names]


def _made_for(graph: Any, output: str) -> set[str]:
    """All values that one is made of, itself included; constants may serve others, too."""
    made_by = {name: node for node in graph.node for name in node.output}
    found = {name for name, node in made_by.items() if node.op_type == "Constant"}
    found -= {name for name in found if is_towers(name)}
    waiting = [output]
    while waiting:
        name = waiting.pop()
        if name in made_by and name not in found:
            found.add(name)
            waiting.extend(made_by[name].input)
    return found


if __name__ == "__main__":
    main()
