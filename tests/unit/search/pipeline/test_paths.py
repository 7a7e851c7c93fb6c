"""Paths in files of settings are relative to the file, wherever the command runs."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragbench import load_pipeline
from ragbench.core.record import field_docs
from ragbench.errors import DataError
from ragbench.io.settings import FilePath, ModelPath, setting_fields
from ragbench.post.build import OPERATORS, RERANKERS, load_post_retrieval, load_variants
from ragbench.search.embedders.embedder import EMBEDDERS
from ragbench.search.pipeline.documents import ChunkSize, Indexing, IndexingSettings
from ragbench.search.pipeline.pre_retrieval import QUERY_TRANSFORMS
from ragbench.search.pipeline.stages import GENERATIONS, ORCHESTRATIONS, RETRIEVALS
from tests.unit.post.tiny_onnx import write_tiny_cross_encoder

REGISTRIES = (
    OPERATORS,
    RERANKERS,
    EMBEDDERS,
    QUERY_TRANSFORMS,
    RETRIEVALS,
    GENERATIONS,
    ORCHESTRATIONS,
)
WITHIN = {"file"}
"""Paths inside of a model's folder."""


def stages_of_files() -> Iterator[Any]:
    """Every class or function whose settings a file may hold."""
    for registry in REGISTRIES:
        for name in registry.builtin:
            yield registry.load(name)
    yield IndexingSettings
    yield ChunkSize


def settings_of_files() -> Iterator[tuple[str, Any, str]]:
    """Every setting that a file may hold: its name, its type and its docstring."""
    for target in stages_of_files():
        if isinstance(target, type) and hasattr(target, "__dataclass_fields__"):
            hints = typing.get_type_hints(target, include_extras=True)
            docs = field_docs(target)
            for name in setting_fields(target):
                yield name, hints[name], docs.get(name, "")


def types_in(hint: Any) -> set[Any]:
    """A type and those that it is made of."""
    types = {hint}
    for part in typing.get_args(hint):
        if not isinstance(part, str):
            types |= types_in(part)
    return types


def test_every_setting_that_is_said_to_be_a_path_is_one() -> None:
    paths_by_type: dict[str, bool] = {}
    paths_by_docstring: set[str] = set()
    for name, hint, text in settings_of_files():
        types = types_in(hint)
        paths_by_type[name] = FilePath in types or ModelPath in types
        sentence = text.partition(".")[0]
        if str in types and re.search(r"\b(file|folder|path)\b", sentence, re.I):
            paths_by_docstring.add(name)

    settings_of_paths = {name for name, is_path in paths_by_type.items() if is_path}
    assert paths_by_docstring == WITHIN | settings_of_paths
    assert paths_by_docstring == {"corpus", "file", "model", "path"}


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder ``conf`` of files; in the working folder lie others of the same names."""
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "conf", tmp_path):
        folder.mkdir(exist_ok=True)
        owner = "ours" if folder.name == "conf" else "theirs"
        document = json.dumps({"_id": owner, "text": owner})
        (folder / "corp.jsonl").write_text(document + "\n", "utf-8")
        write_tiny_cross_encoder(folder / "models" / "tiny")
        thing = f"class Thing:\n    name = '{owner}'\n{METHODS}"
        (folder / "placed_thing.py").write_text(thing, "utf-8")
        (folder / "key").write_text(owner, "utf-8")
    return tmp_path / "conf"


METHODS = """
    identity = {}

    def score(self, query, chunks):
        return [1.0 for _ in chunks]

    def apply(self, context):
        return context.chunks

    def pieces(self, document):
        return []
"""
LEXICAL = "{name: lexical, corpus: corp.jsonl}"
# An operator, to an attribute of what it is loaded as, and its value or its path in ``conf``.
OPERATOR = {
    "{action: rerank, type: lexical, corpus: corp.jsonl}": ("reranker.corpus", "corp.jsonl"),
    f"{{action: rerank, reranker: {LEXICAL}}}": ("reranker.corpus", "corp.jsonl"),
    "{action: rerank, type: cross_encoder, model: models/tiny}": ("reranker.model", "models/tiny"),
    f"{{action: rerank, type: linear, rerankers: [{LEXICAL}]}}": (
        "reranker.rerankers.0.corpus",
        "corp.jsonl",
    ),
    "{action: 'placed_thing.py:Thing'}": ("name", "ours"),
    "{action: rerank, type: 'placed_thing.py:Thing'}": ("reranker.name", "ours"),
}


def stage_of_the_first_variant(file: Path) -> object:
    return load_variants(file)[0].stage


LOADED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "pipeline": ("post_retrieval: [{}]", lambda file: load_pipeline(file).post_retrieval),
    "stage": ("operators: [{}]", load_post_retrieval),
    "variants": ("variants: [{{name: a, operators: [{}]}}]", stage_of_the_first_variant),
}


def attribute(thing: Any, path: str) -> Any:
    """Of attributes and positions in lists, one within another."""
    for part in path.split("."):
        if part.isdigit():
            thing = thing[int(part)]
        else:
            thing = getattr(thing, part)
    return thing


@pytest.mark.extra("onnx")
@pytest.mark.parametrize("operator", OPERATOR)
@pytest.mark.parametrize("kind", LOADED)
@pytest.mark.parametrize("relative", [True, False])
def test_of_operators(operator: str, kind: str, relative: bool, conf: Path) -> None:
    file = conf / "f.yaml"
    path = file.relative_to(Path.cwd()) if relative else file
    text, load = LOADED[kind]
    file.write_text(text.format(operator), "utf-8")

    stage: Any = load(path)

    path_of_value, value = OPERATOR[operator]
    if value != "ours":
        value = str(conf.resolve() / value)
    assert attribute(stage.operators[0], path_of_value) == value


@pytest.mark.extra("tokens")
def test_of_token_counters(conf: Path) -> None:
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    (conf / "only.json").write_text(json.dumps({"version": "1.0", "model": model}), "utf-8")
    counter = "counter: 'tokenizers:only.json'"
    budget = f"{{action: filter, type: token_budget, budget: 9, {counter}}}"
    text = f"indexing: {{chunker: {{name: tokens, {counter}}}}}\npost_retrieval: [{budget}]\n"
    (conf / "f.yaml").write_text(text, "utf-8")

    pipeline = load_pipeline(conf / "f.yaml")

    name = attribute(pipeline, "post_retrieval.operators.0.counter.name")
    assert name.startswith("tokenizers:only.json:")


# A setting, to an attribute of what it is loaded as, and its value; {} is the folder ``conf``.
INDEXING = {
    "store: 'memory:kept'": ("settings.store", "memory:{}/kept"),
    "store: 'qdrant:kept'": ("settings.store", "qdrant:{}/kept"),
    "store: 'postgresql://host/db'": ("settings.store", "postgresql://host/db"),
    "store: 'memory:'": ("settings.store", "memory:"),
    "corpus: corp.jsonl": ("settings.corpus", "{}/corp.jsonl"),
    "embedder: 'onnx:models/tiny'": ("embedder_name", "onnx:{}/models/tiny"),
    "embedder: 'onnx:owner/name'": ("embedder_name", "onnx:owner/name"),
    "embedder: {name: 'onnx:models/tiny', pooling: cls}": ("embedder.model", "{}/models/tiny"),
    "embedder: {name: 'fastembed:m', path: models}": ("embedder.path", "{}/models"),
    "embedder: 'sentence-transformers:models/tiny'": ("embedder.model", "{}/models/tiny"),
    "chunker: 'placed_thing.py:Thing'": ("chunker.name", "ours"),
}


@pytest.mark.extra("onnx")
@pytest.mark.parametrize("setting", INDEXING)
def test_of_indexing(setting: str, conf: Path) -> None:
    file = conf / "f.yaml"
    file.write_text(f"indexing: {{{setting}}}\nretrieval: dense\n", "utf-8")
    path_of_value, value = INDEXING[setting]

    indexing: Indexing = load_pipeline("conf/f.yaml").indexing

    assert attribute(indexing, path_of_value) == value.format(conf.resolve())


@pytest.mark.extra("llm")
def test_of_language_models(conf: Path) -> None:
    file = conf / "f.yaml"
    llm = "{model: m, base_url: 'http://localhost:1/v1', api_key_file: key, cache: a.sqlite}"
    file.write_text(f"llm: {llm}\ngeneration: chat\n", "utf-8")

    (chat,) = load_pipeline("conf/f.yaml").chats
    settings: Any = chat.settings()

    assert settings.cache == str(conf.resolve() / "a.sqlite")
    assert settings.endpoint.key.read({}) == "ours"


@pytest.mark.extra("onnx")
def test_what_lies_in_the_working_folder_alone_is_not_taken(conf: Path) -> None:
    file = conf / "deep" / "f.yaml"
    file.parent.mkdir()
    for operator in [*OPERATOR][:3]:
        file.write_text(f"post_retrieval:\n  - {operator}\n", "utf-8")
        with pytest.raises(DataError) as caught:
            load_pipeline(file)
        assert str(file.parent.resolve()) in str(caught.value)
