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
    nodes = [
        _node("Cast", ["input_ids"], "numbers", [_integer("to", FLOAT)]),
        _node("ReduceMax", ["numbers"], "highest", [_integers("axes", [1])]),
        _node("Add", ["highest", "minus_five"], "logit", []),
    ]
    last = {1: ["logit"], 2: ["zero", "logit"], 3: ["zero", "logit", "zero"]}
    if columns:
        nodes.append(_node("Concat", last[columns], "logits", [_integer("axis", 1)]))
    if reads:
        nodes.append(_node("Identity", ["numbers"], "start", []))
        nodes.append(_node("Neg", ["numbers"], "end", []))
    if doubts:
        nodes.append(_node("Neg", ["logit"], "answers", []))
    tokens = ["start", "end"] if reads else []
    inputs = ["input_ids", *([second_input] if second_input else [])]
    constants = [
        _constant("minus_five", b"\x00\x00\xa0\xc0"),
        _constant("zero", b"\x00\x00\x00\x00"),
    ]
    outputs: dict[str, list[int | str]] = {"logits": [1, columns]} if columns else {}
    outputs |= {name: [1, "length"] for name in tokens}
    outputs |= {"answers": [1, 1]} if doubts else {}
    return write_model(folder, nodes, constants, inputs, outputs)


def write_model(
    folder: Path,
    nodes: list[bytes],
    constants: list[bytes],
    inputs: list[str],
    outputs: dict[str, list[int | str]],
) -> Path:
    """Writes a graph, and the tokenizer of the words w0 to w9 beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [_bytes(1, node) for node in nodes] + [_text(2, "tiny")]
    parts += [_bytes(5, constant) for constant in constants]
    parts += [_bytes(11, _value(name, INT64, [1, "length"])) for name in inputs]
    parts += [_bytes(12, _value(name, FLOAT, shape)) for name, shape in outputs.items()]
    graph = b"".join(parts)
    model = _number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 13))
    (folder / "model.onnx").write_bytes(model)
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()), "utf-8")
    return folder


def _tokenizer() -> dict[str, object]:
    cut = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    return {
        "version": "1.0",
        "truncation": cut,
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        **dict.fromkeys(("padding", "normalizer", "post_processor", "decoder")),
        "model": {"type": "WordLevel", "vocab": {f"w{n}": n for n in range(10)}, "unk_token": "w0"},
    }


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _integer(name: str, number: int) -> bytes:
    return _text(1, name) + _number(3, number) + _number(20, 2)


def _integers(name: str, numbers: list[int]) -> bytes:
    return _text(1, name) + b"".join(_number(8, one) for one in numbers) + _number(20, 7)


def _node(kind: str, inputs: list[str], output: str, attributes: list[bytes]) -> bytes:
    named = [_text(1, name) for name in inputs] + [_text(2, output), _text(4, kind)]
    return b"".join(named + [_bytes(5, attribute) for attribute in attributes])


def _constant(name: str, raw: bytes) -> bytes:
    return _number(1, 1) + _number(1, 1) + _number(2, FLOAT) + _text(8, name) + _bytes(9, raw)


def _value(name: str, kind: int, shape: list[int | str]) -> bytes:
    sizes = b"".join(
        _bytes(1, _number(1, size) if isinstance(size, int) else _text(2, size)) for size in shape
    )
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, sizes)))
