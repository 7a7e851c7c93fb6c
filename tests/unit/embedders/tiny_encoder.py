"""The smallest text encoder: the vector of word wN is (1, N, 0), and nothing else is done.

Tokens are the words w0 to w9. The model is one Gather, written byte by byte in the protobuf format
of ONNX (https://onnx.ai/onnx/repo-docs/IR.html).
"""

from __future__ import annotations

import struct
from pathlib import Path

from tests.unit.post import tiny_onnx as onnx


def write_tiny_encoder(folder: Path, *, pooled: bool = False) -> Path:
    """Writes model.onnx and tokenizer.json; pooled, it gives the highest number of each column."""
    raw = b"".join(struct.pack("<fff", 1, number, 0) for number in range(10))
    shape = onnx._number(1, 10) + onnx._number(1, 3) + onnx._number(2, onnx.FLOAT)
    table = shape + onnx._text(8, "table") + onnx._bytes(9, raw)
    nodes = [onnx._node("Gather", ["table", "input_ids"], "tokens", [])]
    output: list[int | str] = [1, "length", 3]
    if pooled:
        over = [onnx._integers("axes", [1]), onnx._integer("keepdims", 0)]
        nodes.append(onnx._node("ReduceMax", ["tokens"], "texts", over))
        output = [1, 3]
    name = "texts" if pooled else "tokens"
    return onnx.write_model(folder, nodes, [table], ["input_ids"], {name: output})
