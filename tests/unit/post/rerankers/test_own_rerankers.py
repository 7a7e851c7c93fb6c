"""Rerankers of a user's, named by their place."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragbench import Chunk, build_operator, build_reranker, load_pipeline, rerank
from ragbench.errors import ConfigError, DataError
from ragbench.ledger.identity import described
from ragbench.post.build import Resources, load_post_retrieval, load_variants
from ragbench.post.rerankers.fusion import LinearFusionReranker

SOURCE = '''
from dataclasses import dataclass

from ragbench.post.rerank import Reranker


@dataclass(frozen=True)
class Shorter:
    """Short chunks first."""

    power: float = 1.0
    """How steeply."""
    inner: Reranker | None = None

    name = "shorter"

    def score(self, query, chunks):
        return [-(len(chunk.text) ** self.power) for chunk in chunks]


class Plain:
    name = "plain"

    def __init__(self, factor=1):
        self.factor = factor

    def score(self, query, chunks):
        return [self.factor * len(chunk.text) for chunk in chunks]


class Refuses(Plain):
    def __init__(self):
        raise OSError("no such model")


class NoScore:
    name = "none"


ready = Plain(3)
'''
CHUNKS = [Chunk(id="long", text="a long text"), Chunk(id="short", text="short")]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with rerankers in a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def order(given: object) -> list[str]:
    return [entry.chunk.id for entry in rerank("q", CHUNKS, build_reranker(given)).chunks]


@pytest.mark.usefixtures("here")
def test_a_class_in_a_file_is_a_reranker_by_its_place() -> None:
    assert order("mine.py:Shorter") == ["short", "long"]
    assert order("mine:Plain") == ["long", "short"]
    assert order({"name": "mine.py:Plain", "factor": -1}) == ["short", "long"]
    assert order("mine.py:ready") == ["long", "short"]


@pytest.mark.usefixtures("here")
def test_its_settings_are_its_fields_and_rerankers_stand_within_it() -> None:
    built: Any = build_reranker(
        {"name": "mine.py:Shorter", "power": 2, "inner": {"name": "mine.py:Plain", "factor": 5}}
    )
    assert (built.power, built.inner.factor) == (2.0, 5)
    fused = build_reranker({"name": "linear", "rerankers": ["mine.py:Shorter"]})
    assert isinstance(fused, LinearFusionReranker)
    assert fused.rerankers[0].name == "shorter"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("mine.py:Short", "'mine.py:Short': there is no 'Short'. Did you mean Shorter"),
        ("mine.py:xyz", "there is no 'xyz'. Did you mean Plain or Refuses or Shorter?"),
        ("mine.py:NoScore", "it needs an attribute 'name' and a method score()"),
        ("mine.py:Refuses", "'mine.py:Refuses' raised OSError: no such model"),
        ("none.py:X", "there is no file 'none.py'"),
        ({"name": "mine.py:Shorter", "powr": 1}, "unknown setting 'powr'. Did you mean 'power'?"),
        ({"name": "mine.py:Shorter", "power": "x"}, "mine.py:Shorter: power must be a number"),
        ({"name": "mine.py:Plain", "other": 1}, "unexpected keyword argument 'other'"),
        ({"name": "mine.py:ready", "factor": 1}, "is an instance and takes no factor"),
    ],
)
def test_what_is_wrong_with_it_is_told(given: object, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        build_reranker(given)
    assert told in str(error.value)


STAGE = """\
operators:
  - {action: rerank, type: "mine.py:Plain", factor: -2, top_k: 1}
"""


def test_it_stands_in_files_of_post_retrieval_variants_and_pipelines(here: Path) -> None:
    (here / "stage.yaml").write_text(STAGE, encoding="utf-8")
    stage = load_post_retrieval(here / "stage.yaml")
    assert [entry.chunk.id for entry in stage.run("q", CHUNKS).chunks] == ["short"]
    variants = "variants:\n" + "".join(
        f"  - {{name: {name}, operators: [{{action: rerank, type: 'mine.py:{name}'}}]}}\n"
        for name in ("Plain", "Shorter")
    )
    (here / "variants.yaml").write_text(variants, encoding="utf-8")
    found = [variant.stage.run("q", CHUNKS) for variant in load_variants(here / "variants.yaml")]
    assert [entry.chunks[0].chunk.id for entry in found] == ["long", "short"]
    folder = here / "project"
    folder.mkdir()
    (folder / "theirs.py").write_text(SOURCE, encoding="utf-8")
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"id": one.id, "text": one.text}) + "\n" for one in CHUNKS),
        encoding="utf-8",
    )
    (folder / "rag.yaml").write_text(
        "indexing: {corpus: corpus.jsonl}\n"
        "retrieval: bm25\n"
        "post_retrieval:\n"
        "  - {action: rerank, type: 'theirs.py:Plain', factor: -1}\n",
        encoding="utf-8",
    )
    after = load_pipeline(folder / "rag.yaml").post_retrieval
    assert after is not None and after.operators[0].name == "rerank.plain"


def test_a_mistake_is_told_with_its_line(here: Path) -> None:
    (here / "stage.yaml").write_text(STAGE.replace("factor", "facto"), encoding="utf-8")
    with pytest.raises(DataError) as error:
        load_post_retrieval(here / "stage.yaml")
    assert "stage.yaml:2" in str(error.value) and "'facto'" in str(error.value)


def test_the_folder_of_a_file_is_where_its_rerankers_are_looked_for(here: Path) -> None:
    (here / "sub").mkdir()
    (here / "mine.py").rename(here / "sub" / "mine.py")
    given = {"action": "rerank", "type": "mine.py:Shorter"}
    assert build_operator(given, Resources(folder=here / "sub")).name == "rerank.shorter"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("setting", [("mine.py:Plain", "factor"), ("mine.py:Shorter", "power")])
def test_its_identity_holds_its_settings_whatever_its_class(setting: tuple[str, str]) -> None:
    place, name = setting
    one, same, other = (
        described(build_reranker({"name": place, name: value})) for value in (1, 1, 2)
    )
    assert one == same != other


def test_its_identity_holds_its_code(here: Path) -> None:
    before = described(build_reranker("mine.py:Plain"))
    (here / "mine.py").write_text(SOURCE.replace("self.factor *", "2 *"), encoding="utf-8")
    assert described(build_reranker("mine.py:Plain")) != before
