"""What each stage allows alone and no pipeline can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ragbench.data.yaml_file import Place, YamlFile
from ragbench.errors import ConfigError
from ragbench.generation.chat import ChatGenerator
from ragbench.pipeline.engine import DenseRetrieval
from ragbench.pipeline.extractive import ExtractiveGeneration
from ragbench.pipeline.indexing import Indexing
from ragbench.pipeline.own import OwnRetrieval
from ragbench.postretrieval.operator import PostRetrieval
from ragbench.postretrieval.rerank import Rerank
from ragbench.postretrieval.rerankers.mmr import MmrReranker
from ragbench.postretrieval.rerankers.semantic import SemanticReranker
from ragbench.retrieval.foreign import DENSE_ONLY
from ragbench.stores.foreign.registry import check_foreign_address

__all__ = ["impossible"]

Found = Iterator[tuple[Place, str]]


def impossible(
    file: YamlFile,
    indexing: Indexing,
    retrieval: Any,
    post_retrieval: PostRetrieval | None,
    generation: Any,
) -> Found:
    """What cannot be done together.

    Args:
        file: the file.
        indexing: stage 1.
        retrieval: stage 3; None where it is wrong by itself.
        post_retrieval: stage 4.
        generation: stage 5; None where it is wrong by itself.

    Yields:
        Where in the file each such thing stands, and what is wrong.
    """
    if retrieval is None:
        return
    foreign = _section(file, "indexing").get("map") is not None
    if foreign and not isinstance(retrieval, OwnRetrieval):
        yield from _unfit_for_foreign(file, indexing, retrieval)
        yield from _missing_embeddings(file, retrieval, post_retrieval)
        return
    yield from _unused_indexing(file, retrieval)
    yield from _missing_embedder(file, indexing, retrieval)
    yield from _missing_embeddings(file, retrieval, post_retrieval)
    if isinstance(generation, ChatGenerator):
        yield from _too_many_contexts(retrieval, post_retrieval, generation)
    if isinstance(generation, ExtractiveGeneration):
        yield from _unknown_weights(file, retrieval)


def _unused_indexing(file: YamlFile, retrieval: Any) -> Found:
    section = _section(file, "indexing")
    if isinstance(retrieval, OwnRetrieval):
        if section:
            yield ("indexing",), "retrieval is a class of your own: it brings its own index"
        return
    if retrieval.uses_store:
        return
    for key in section:
        if key in ("store", "collection", "embedder"):
            told = (
                f"'{key}' has no use with bm25, which keeps words in memory: leave it out, or take "
                "dense, sparse or hybrid retrieval"
            )
            yield ("indexing", key), told


def _unfit_for_foreign(file: YamlFile, indexing: Indexing, retrieval: Any) -> Found:
    """What cannot be said of a collection that ragbench did not fill."""
    section = _section(file, "indexing")
    for key in ("corpus", "chunker"):
        if key in section:
            told = (
                f"'{key}' is there to fill a collection, 'map' to read one that is filled: leave "
                "one of both out"
            )
            yield ("indexing", key), told
    try:
        check_foreign_address(indexing.store)
    except ConfigError as error:
        yield ("indexing", "store" if "store" in section else "map"), str(error)
    if not section.get("collection"):
        yield ("indexing", "map"), "'map' needs the name of a collection: add 'collection: NAME'"
    if section.get("embedder") is None:
        told = "'map' needs what the collection's vectors were made by: add 'embedder: NAME'"
        yield ("indexing", "map"), told
    if not isinstance(retrieval, DenseRetrieval):
        yield ("retrieval",), f"{DENSE_ONLY}. Take dense retrieval"
        return
    if retrieval.filters:
        told = "filters are executed only in collections that ragbench has filled: leave them out"
        yield ("retrieval", "filters"), told
    if retrieval.embeddings:
        told = (
            "the vectors of a collection that ragbench did not fill are not read: leave "
            "'embeddings' out"
        )
        yield ("retrieval", "embeddings"), told


def _missing_embedder(file: YamlFile, indexing: Indexing, retrieval: Any) -> Found:
    section = _section(file, "indexing")
    none = "embedder" in section and section["embedder"] is None
    if isinstance(retrieval, OwnRetrieval) or not retrieval.uses_store or not none:
        return
    if indexing.embedder is None:
        told = "a store keeps vectors: name an embedder, or take bm25 retrieval, which needs none"
        yield ("indexing", "embedder"), told


def _missing_embeddings(file: YamlFile, retrieval: Any, stage: PostRetrieval | None) -> Found:
    if stage is None or retrieval.gives_embeddings:
        return
    place: Place = ("post_retrieval",)
    if isinstance(_value(file, "post_retrieval"), Mapping):
        place = ("post_retrieval", "operators")
    for position, operator in enumerate(stage.operators):
        reranker = operator.reranker if isinstance(operator, Rerank) else None
        needs = isinstance(reranker, SemanticReranker) or (
            isinstance(reranker, MmrReranker)
            and "embedding" in (reranker.relevance, reranker.similarity)
        )
        if needs and reranker is not None:
            told = (
                f"the reranker {reranker.name} compares embeddings, and retrieval gives none: take "
                "dense or hybrid retrieval with 'embeddings: true', or another reranker"
            )
            yield (*place, position), told


def _too_many_contexts(
    retrieval: Any, stage: PostRetrieval | None, generation: ChatGenerator
) -> Found:
    wanted = generation.max_contexts
    adds = stage is not None and any(one.name.startswith("merge") for one in stage.operators)
    if wanted is not None and wanted > retrieval.top_k and not adds:
        told = f"max_contexts is {wanted}, and retrieval gives at most {retrieval.top_k} (top_k)"
        yield ("generation", "max_contexts"), told


def _unknown_weights(file: YamlFile, retrieval: Any) -> Found:
    asked = _section(file, "generation").get("word_weights") == "corpus"
    if asked and isinstance(retrieval, (OwnRetrieval, DenseRetrieval)):
        which = "dense retrieval" if isinstance(retrieval, DenseRetrieval) else "your own retrieval"
        told = f"what words are worth in the corpus is not known to {which}"
        yield ("generation", "word_weights"), told


def _value(file: YamlFile, key: str) -> object:
    return cast("Mapping[str, object]", file.value or {}).get(key)


def _section(file: YamlFile, key: str) -> Mapping[str, object]:
    value = _value(file, key)
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
