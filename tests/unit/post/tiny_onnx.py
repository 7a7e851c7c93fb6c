"""The smallest cross-encoder: its logit for a pair is the highest token id minus five.

Tokens are the words w0 to w9 with the ids 0 to 9, so that "w7 w2" scores sigmoid(2). The model is
written byte by byte in the protobuf format of ONNX (https://onnx.ai/onnx/repo-docs/IR.html).
"""

from __future__ import annotations

import json
from pathlib import Path

INT64 = 7
FLOAT = 1


def write_tiny_cross_encoder(
    folder: Path,
    *,
    columns: int = 1,
    second_input: str = "",
    reads: bool = False,
    doubts: bool = False,
) -> Path:
    """Writes model.onnx and tokenizer.json, whose outputs are the logit alone, or beside zeros.

    With no column there is no output for the pair.

    One that reads has outputs start and end, a logit a token: its id, and minus its id; one that
    doubts has an output answers, minus the logit. A second input is not used.
    """
    inputs = ["input_ids"]
    if second_input:
        inputs.append(second_input)
    constants = [
        _constant("minus_five", b"\x00\x00\xa0\xc0"),
        _constant("zero", b"\x00\x00\x00\x00"),
    ]
    nodes = [
        _node("Cast", ["input_ids"], "numbers", [_integer("to", FLOAT)]),
        _node("ReduceMax", ["numbers"], "highest", [_integers("axes", [1])]),
        _node("Add", ["highest", "minus_five"], "logit", []),
    ]
    outputs: dict[str, list[int | str]] = {}
    if columns:
        columns_of_output = {
            1: ["logit"],
            2: ["zero", "logit"],
            3: ["zero", "logit", "zero"],
        }
        nodes.append(
            _node("Concat", columns_of_output[columns], "logits", [_integer("axis", 1)]),
        )
        outputs["logits"] = [1, columns]
    if reads:
        nodes.append(_node("Identity", ["numbers"], "start", []))
        nodes.append(_node("Neg", ["numbers"], "end", []))
        outputs["start"] = [1, "length"]
        outputs["end"] = [1, "length"]
    if doubts:
        nodes.append(_node("Neg", ["logit"], "answers", []))
        outputs["answers"] = [1, 1]
    return write_model(folder, nodes, constants, inputs, outputs)


# The numbers of the fields below are those of onnx.proto.


def write_model(
    folder: Path,
    nodes: list[bytes],
    constants: list[bytes],
    inputs: list[str],
    outputs: dict[str, list[int | str]],
) -> Path:
    """Writes a graph, and the tokenizer of the words w0 to w9 beside it."""
    graph = b""
    for node in nodes:
        graph += _bytes(1, node)
    graph += _text(2, "tiny")
    for constant in constants:
        graph += _bytes(5, constant)
    for name in inputs:
        graph += _bytes(11, _value(name, INT64, [1, "length"]))
    for name, shape in outputs.items():
        graph += _bytes(12, _value(name, FLOAT, shape))

    format_version = _number(1, 8)
    operator_set = _text(1, "") + _number(2, 13)
    model = format_version + _bytes(7, graph) + _bytes(8, operator_set)

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()), "utf-8")
    return folder


def _tokenizer() -> dict[str, object]:
    return {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": 8,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "padding": None,
        "normalizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {f"w{id}": id for id in range(10)},
            "unk_token": "w0",
        },
    }


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; each byte but the last has its highest bit set."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _integer(name: str, number: int) -> bytes:
    """An attribute of a node, of type 2."""
    return _text(1, name) + _number(3, number) + _number(20, 2)


def _integers(name: str, numbers: list[int]) -> bytes:
    """An attribute of a node, of type 7."""
    attribute = _text(1, name)
    for number in numbers:
        attribute += _number(8, number)
    return attribute + _number(20, 7)


def _node(kind: str, inputs: list[str], output: str, attributes: list[bytes]) -> bytes:
    node = b""
    for name in inputs:
        node += _text(1, name)
    node += _text(2, output) + _text(4, kind)
    for attribute in attributes:
        node += _bytes(5, attribute)
    return node


def _constant(name: str, raw: bytes) -> bytes:
    """A tensor of one row and one column."""
    shape = _number(1, 1) + _number(1, 1)
    return shape + _number(2, FLOAT) + _text(8, name) + _bytes(9, raw)


def _value(name: str, kind: int, shape: list[int | str]) -> bytes:
    """An input or output: its name, and a tensor type whose sizes are numbers or names."""
    sizes = b""
    for size in shape:
        if isinstance(size, int):
            sizes += _bytes(1, _number(1, size))
        else:
            sizes += _bytes(1, _text(2, size))
    tensor_type = _number(1, kind) + _bytes(2, sizes)
    return _text(1, name) + _bytes(2, _bytes(1, tensor_type))
