"""Stages from files: every error with its line, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench import Query
from ragbench.errors import DataError
from ragbench.post.build import Resources, load_post_retrieval, load_variants
from ragbench.post.filter import TopK
from ragbench.post.merge import QueryMerge, SecondaryQuery
from tests.unit.post.operators.builders import Shelf, chunk, ids


def saved(folder: Path, text: str) -> Path:
    path = folder / "stage.yaml"
    path.write_text(text, "utf-8")
    return path


def problems(path: Path, load: object = load_post_retrieval) -> list[tuple[int | None, str | None]]:
    assert callable(load)
    with pytest.raises(DataError) as caught:
        load(path)
    return [(problem.line, problem.field) for problem in caught.value.problems]


def test_a_file_becomes_a_stage(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        """
        on_error: raise
        score_field: rerank_score
        operators:
          - {action: filter, type: top_k, k: 2}
          - action: merge
            type: multi_query
            queries:
              - {query: "{question} again", top_k: 3}
        """,
    )
    shelf = Shelf()
    stage = load_post_retrieval(path, Resources(service=shelf))
    queries = (SecondaryQuery(query="{question} again", top_k=3),)
    assert stage.operators == (TopK(k=2), QueryMerge(service=shelf, queries=queries))
    assert (stage.on_error, stage.score_field) == ("raise", "rerank_score")


def test_json_is_yaml_too(tmp_path: Path) -> None:
    path = saved(tmp_path, '{"operators": [{"action": "none"}]}')
    assert load_post_retrieval(path).operators[0].name == "none"


def test_all_problems_are_told_with_their_lines(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        """on_error: skip
operatrs: 3
operators:
  - action: rerank
    type: lexicall
  - action: filter
    type: top_k
    k: 0
  - {action: filter, type: token_budget, budget: many}
  - action: merge
    type: link_expand
  - action: format
    type: template
    template: "{foo}"
    header: "{text}"
  - 7
score_field: [1]
""",
    )
    assert problems(path) == [
        (1, "on_error"),
        (2, "operatrs"),
        (5, "type"),
        (8, "k"),
        (9, "budget"),
        (10, "operators"),
        (14, "template"),
        (15, "header"),
        (16, "operators"),
        (17, "score_field"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "stage.yaml: is empty"),
        ("- 1", "stage.yaml:1: expected 'name: value' entries, found a list"),
        ("operators: 3", "stage.yaml:1: field 'operators': expected a list, found 3"),
        ("on_error: keep", "stage.yaml:1: the key 'operators' is missing"),
        ("a: [", "stage.yaml:1: is not YAML"),
        ("operators: []\noperators: []", "stage.yaml:2: the key 'operators' is given twice"),
        ("operators: &a [*a]", "stage.yaml:1: an alias leads into itself"),
        ("operators: 2024-13-01", "is not YAML: month must be in"),
        ("operators: !!python/object:os.system {}", "could not determine a constructor"),
        ("operators: " + "[" * 5000, "is n"),
    ],
)
def test_what_is_no_stage_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        load_post_retrieval(saved(tmp_path, text))
    assert message in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_post_retrieval(tmp_path / "no.yaml")
    (tmp_path / "stage.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not UTF-8"):
        load_post_retrieval(tmp_path / "stage.yaml")


MODULE = """
class Model:
    name = "mine"

    def complete(self, messages):
        return '{"keep": [2]}'


def shelf():
    raise RuntimeError("closed")


number = 3
"""


def test_a_file_names_its_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_model.py").write_text(MODULE, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = saved(tmp_path, "chat: my_model.py:Model\noperators: [{action: filter, type: llm}]")
    done = load_post_retrieval(path).run(Query(text="?"), [chunk("a"), chunk("b")])
    assert ids(done.chunks) == ["b"]
    bad = saved(
        tmp_path,
        "chat: my_model.py:number\nservice: my_model.py:shelf\noperators: []",
    )
    with pytest.raises(DataError) as caught:
        load_post_retrieval(bad)
    assert [problem.message for problem in caught.value.problems] == [
        "'my_model.py:number' is not a ChatModel: it lacks what one has",
        "'my_model.py:shelf' raised RuntimeError: closed",
    ]


def test_variants_have_names_and_stages(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        """
        variants:
          - {name: none, operators: []}
          - name: two
            operators: [{action: filter, type: top_k, k: 2}]
        """,
    )
    first, second = load_variants(path)
    assert (first.name, first.stage.operators) == ("none", ())
    assert (second.name, second.stage.operators) == ("two", (TopK(k=2),))


def test_variants_with_problems_are_refused(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        """variants:
  - operators: []
  - {name: a, operators: []}
  - {name: a, operators: []}
  - name: b
    operators: [{action: filter, type: top_k, k: 0}]
    more: 1
  - 3
""",
    )
    found = problems(path, load_variants)
    assert (2, "name") in found
    assert (4, "name") in found
    assert (6, "k") in found
    assert (7, "more") in found
    assert (8, "variants") in found


@pytest.mark.parametrize("text", ["variants: []", "operators: []", "variants: 3"])
def test_no_variants_are_refused(tmp_path: Path, text: str) -> None:
    assert problems(saved(tmp_path, text), load_variants)
