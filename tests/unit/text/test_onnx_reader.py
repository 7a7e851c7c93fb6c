from pathlib import Path

import pytest

from ragbench.errors import ConfigError
from ragbench.text.onnx_model import PairReader
from tests.unit.post.tiny_onnx import write_tiny_cross_encoder

pytestmark = pytest.mark.extra("onnx")


def reader(folder: Path) -> PairReader:
    write_tiny_cross_encoder(folder, reads=True)
    return PairReader(folder / "model.onnx", folder / "tokenizer.json", threads=2)


def test_the_best_span_of_the_text_is_found(tmp_path: Path) -> None:
    # Start logits are 3 1 8 2 4, end logits their negatives: of spans in the text "w8 w2 w4" the
    # best begins at w8 and ends at w2, with 8 - 2; "no answer" is the first token's 3 - 3.
    found, without_tokens = reader(tmp_path).read([("w3 w1", "w8 w2 w4"), ("w1", "")])
    assert (without_tokens.start, without_tokens.end) == (0, 0)
    assert (found.start, found.end) == (0, 5)
    assert found.span == pytest.approx(6.0)
    assert found.logit == pytest.approx(3.0)


def test_a_model_without_spans_is_refused(tmp_path: Path) -> None:
    write_tiny_cross_encoder(tmp_path)
    with pytest.raises(ConfigError, match="no outputs 'start' and 'end'"):
        PairReader(tmp_path / "model.onnx", tmp_path / "tokenizer.json", threads=1)
