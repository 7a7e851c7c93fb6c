from __future__ import annotations

from pathlib import Path

import pytest

from ragbench.errors import DataError
from ragbench.post.space import load_space

SPACE = """operators:
  - any:
      - none
      - {action: rerank, type: lexical, k1: {any: [0.9, 2.0]}}
      - {action: rerank, type: feedback}
  - {action: filter, type: dedup_near, similarity: {any: [0.7, 0.9]}}
  - {action: augment, type: context, fields: [title]}
  - any: [none, {action: filter, type: top_k, k: 5}, {action: filter, type: top_k, k: 3}]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "space.yaml"
    path.write_text(text, "utf-8")
    return path


def test_a_space_is_every_combination_and_the_first_is_the_first_of_each(tmp_path: Path) -> None:
    found = load_space(write(tmp_path, SPACE))
    assert len(found) == 4 * 2 * 3
    assert found[0].variant.name == "no rerank, similarity=0.7, no top_k"
    assert [choice.factor for choice in found[0].choices] == [
        "operator 1", "operator 2, similarity", "operator 4",
    ]  # fmt: skip
    assert {one.choices[0].text for one in found} == {
        "no rerank", "lexical k1=0.9", "lexical k1=2.0", "feedback",
    }  # fmt: skip
    assert len({one.variant.name for one in found}) == len(found)
    names = [operator.name for operator in found[0].variant.stage.operators]
    assert names == ["filter.dedup_near", "augment.context"]
    last = found[-1].variant.stage.operators
    assert [operator.name for operator in last] == [
        "rerank.feedback", "filter.dedup_near", "augment.context", "filter.top_k",
    ]  # fmt: skip
    assert getattr(last[1], "similarity") == 0.9  # noqa: B009
    assert getattr(last[3], "k") == 3  # noqa: B009


def test_alternatives_of_different_kinds_are_named_by_their_place(tmp_path: Path) -> None:
    text = "operators: [{any: [none, {action: filter, type: dedup}, {action: none}]}]"
    names = [one.variant.name for one in load_space(write(tmp_path, text))]
    assert names == ["no operator 1", "dedup", "none"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("variants: []\n", 1, "the key 'operators' is missing"),
        ("operators: 3\n", 1, "expected a list of operators"),
        ("operators: []\nother: 1\n", 2, "unknown key. Known: operators"),
        ("operators:\n  - {action: none}\n", 1, "nothing has alternatives"),
        ("operators:\n  - any: [none]\n", 2, "a list of at least two"),
        ("operators:\n  - any: none\n", 2, "a list of at least two"),
        (
            "operators:\n  - any: [none, {action: filter, type: topk}]\n",
            2,
            "unknown type 'topk' of filter. Did you mean 'top_k'?",
        ),
        (
            "operators:\n  - {action: none}\n  - {action: filter, type: top_k, k: {any: [0, 5]}}\n",
            3,
            "k must be at least 1, not 0",
        ),
        (
            "operators:\n"
            + "  - {action: filter, type: top_k, k: {any: [1, 2, 3, 4, 5, 6, 7, 8, 9]}}\n" * 3,
            1,
            "the space has 729 combinations; at most 512 are tried",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    with pytest.raises(DataError) as caught:
        load_space(write(tmp_path, text))
    problem = caught.value.problems[0]
    assert (problem.line, said in problem.message) == (line, True), problem
