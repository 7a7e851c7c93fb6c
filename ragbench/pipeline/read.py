"""A pipeline from its file, and what cannot go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ragbench.errors import ConfigError, DataError
from ragbench.io.yaml_file import Place, Section, YamlFile, read_yaml
from ragbench.llm.budget import Budget
from ragbench.pipeline.custom import (
    OwnGenerator,
    OwnOrchestration,
    OwnRetrieval,
    built,
    own_orchestration,
    own_rag,
)
from ragbench.pipeline.documents import Indexing
from ragbench.pipeline.pipeline import Pipeline
from ragbench.pipeline.pre_retrieval import QUERY_TRANSFORMS, PreRetrieval, QueryTransform
from ragbench.pipeline.sections import Chosen, PipelineFile, PipelineModels, read_indexing
from ragbench.pipeline.stages import (
    GENERATIONS,
    ORCHESTRATIONS,
    RETRIEVALS,
    LateSearch,
    Orchestration,
)
from ragbench.post.build import Resources, read_stage
from ragbench.post.rerank import Rerank
from ragbench.post.stage import PostRetrieval
from ragbench.stores.attached import check_foreign_address

Found = Iterator[tuple[Place, str]]


def impossible(
    file: YamlFile,
    indexing: Indexing,
    retrieval: Any,
    post_retrieval: PostRetrieval | None,
    generation: Any,
) -> Found:
    """What cannot be done together."""
    if retrieval is None:
        return
    foreign = _section(file, "indexing").get("map") is not None
    if foreign and not isinstance(retrieval, OwnRetrieval):
        yield from _unfit_for_foreign(file, indexing, retrieval)
        yield from _missing_embeddings(file, retrieval, post_retrieval)
        return
    if getattr(retrieval, "native_filter", None):
        told = (
            "only a collection that ragbench did not fill (indexing: map) takes filters in the "
            "store's own syntax: use 'filters'"
        )
        yield ("retrieval", "native_filter"), told
    yield from _unused_indexing(file, retrieval)
    yield from _missing_embedder(file, indexing, retrieval)
    yield from _missing_embeddings(file, retrieval, post_retrieval)
    yield from _too_many_contexts(retrieval, post_retrieval, generation)
    if hasattr(generation, "word_weights"):
        yield from _unknown_weights(file, retrieval)


def _unused_indexing(file: YamlFile, retrieval: Any) -> Found:
    section = _section(file, "indexing")
    if isinstance(retrieval, OwnRetrieval):
        if section:
            yield ("indexing",), "retrieval is a class of your own: it brings its own index"
        return
    if _uses_store(retrieval):
        return
    for key in section:
        if key in ("store", "collection", "embedder"):
            problem = (
                f"'{key}' has no use with {_retrieval_name(file)}, which uses no store: leave it "
                "out, or take dense, sparse or hybrid retrieval"
            )
            yield ("indexing", key), problem


def _unfit_for_foreign(file: YamlFile, indexing: Indexing, retrieval: Any) -> Found:
    """What cannot be said of a collection that ragbench did not fill."""
    section = _section(file, "indexing")
    for key in ("corpus", "chunker"):
        if key in section:
            problem = (
                f"'{key}' is there to fill a collection, 'map' to read one that is filled: leave "
                "one of both out"
            )
            yield ("indexing", key), problem
    try:
        check_foreign_address(indexing.store)
    except ConfigError as error:
        yield ("indexing", "store" if "store" in section else "map"), str(error)
    if not section.get("collection"):
        yield ("indexing", "map"), "'map' needs the name of a collection: add 'collection: NAME'"
    by_words = getattr(retrieval, "strategy", None) == "sparse"
    if section.get("embedder") is None and not by_words:
        told = "'map' needs what the collection's vectors were made by: add 'embedder: NAME'"
        yield ("indexing", "map"), told
    if not getattr(retrieval, "reads_attached", False):
        told = (
            "this retrieval reads no collection that ragbench did not fill: take dense, sparse or "
            "hybrid"
        )
        yield ("retrieval",), told
        return
    if _gives_embeddings(retrieval):
        problem = (
            "the vectors of a collection that ragbench did not fill are not read: leave "
            "'embeddings' out"
        )
        yield ("retrieval", "embeddings"), problem


def _missing_embedder(file: YamlFile, indexing: Indexing, retrieval: Any) -> Found:
    section = _section(file, "indexing")
    none = "embedder" in section and section["embedder"] is None
    if not _uses_store(retrieval) or not none:
        return
    if indexing.embedder is None:
        problem = "search by meaning needs vectors: name an embedder, or take sparse retrieval"
        yield ("indexing", "embedder"), problem


def _missing_embeddings(file: YamlFile, retrieval: Any, stage: PostRetrieval | None) -> Found:
    if stage is None or _gives_embeddings(retrieval):
        return
    place: Place = ("post_retrieval",)
    if isinstance(_value(file, "post_retrieval"), Mapping):
        place = ("post_retrieval", "operators")
    for position, operator in enumerate(stage.operators):
        reranker = operator.reranker if isinstance(operator, Rerank) else None
        if reranker is not None and getattr(reranker, "needs_embeddings", False):
            problem = (
                f"the reranker {reranker.name} compares embeddings, and retrieval gives none: take "
                "dense or hybrid retrieval with 'embeddings: true', or another reranker"
            )
            yield (*place, position), problem


def _too_many_contexts(retrieval: Any, stage: PostRetrieval | None, generation: Any) -> Found:
    wanted: int | None = getattr(generation, "max_contexts", None)
    adds = stage is not None and any(one.name.startswith("merge") for one in stage.operators)
    if wanted is not None and wanted > retrieval.top_k and not adds:
        problem = f"max_contexts is {wanted}, and retrieval gives at most {retrieval.top_k} (top_k)"
        yield ("generation", "max_contexts"), problem


def _unknown_weights(file: YamlFile, retrieval: Any) -> Found:
    asked = _section(file, "generation").get("word_weights") == "corpus"
    if asked and not getattr(retrieval, "knows_word_weights", True):
        which = "your own" if isinstance(retrieval, OwnRetrieval) else _retrieval_name(file)
        problem = f"what words are worth in the corpus is not known to {which} retrieval"
        yield ("generation", "word_weights"), problem


def _retrieval_name(file: YamlFile) -> str:
    value = _value(file, "retrieval")
    if isinstance(value, Mapping):
        value = cast("Mapping[str, object]", value).get("type")
    named: object = value
    return str(named or "bm25")


def _uses_store(retrieval: Any) -> bool:
    return bool(getattr(retrieval, "uses_store", False))


def _gives_embeddings(retrieval: Any) -> bool:
    return bool(getattr(retrieval, "gives_embeddings", True))


def _value(file: YamlFile, key: str) -> object:
    return cast("Mapping[str, object]", file.value or {}).get(key)


def _section(file: YamlFile, key: str) -> Mapping[str, object]:
    value = _value(file, key)
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


SECTIONS = (
    "name",
    "llm",
    "indexing",
    "pre_retrieval",
    "retrieval",
    "post_retrieval",
    "generation",
    "orchestration",
)
"""The keys of a pipeline file."""


def load_pipeline(
    path: str | Path,
    *,
    environ: Mapping[str, str] | None = None,
    llm: Mapping[str, object] | None = None,
    budget: Budget | None = None,
) -> Pipeline:
    """Reads a pipeline and checks all of it. Nothing is indexed, connected or asked.

    Classes of the user's are imported, and built where they need no open stages.

    Example:
        >>> with load_pipeline("rag.yaml").open() as opened:  # doctest: +SKIP
        ...     opened.rag.retrieve("How many days of leave?")

    Args:
        path: a YAML file; see docs/pipeline.md. Paths and classes in it are relative to it.
        environ: the environment that settings of a language model may come from.
        llm: settings of a language model that hold where the file says nothing, such as the
            section ``llm`` of ragbench.yaml.
        budget: caps what its language models cost together.

    Raises:
        DataError: the file has problems; holds all of them, with their lines.
    """
    path = Path(path)
    reading = PipelineFile(file=read_yaml(path), folder=path.resolve().parent)
    top = Section.of(reading.file, reading.file.value, (), reading.problems)
    if top is None:
        reading.finish()
        raise DataError(reading.problems)
    top.refuse_others(SECTIONS)
    name = top.text("name") or path.stem
    models = PipelineModels(
        reading=reading, environ=environ or {}, defaults=llm or {}, budget=budget
    )
    models.check()
    service = LateSearch()
    pre_retrieval = _pre_retrieval(reading, models)
    indexing = read_indexing(reading)
    retrieval = _retrieval(reading)
    post_retrieval = _post_retrieval(reading, models, service)
    generation = _generation(reading, models)
    orchestration, own = _orchestration(reading)
    for place, message in impossible(reading.file, indexing, retrieval, post_retrieval, generation):
        reading.wrong(place, message)
    reading.finish()
    return Pipeline(
        path=path,
        name=name,
        indexing=indexing,
        retrieval=retrieval,
        generation=generation,
        pre_retrieval=pre_retrieval,
        post_retrieval=post_retrieval,
        orchestration=orchestration,
        own_orchestration=own,
        service=service,
        chats=models.opened(),
    )


def _pre_retrieval(reading: PipelineFile, models: PipelineModels) -> PreRetrieval:
    place: Place = ("pre_retrieval",)
    listed: object = reading.at(place)
    on_error: Any = "keep"
    if isinstance(listed, Mapping):
        section = Section.of(reading.file, reading.mapping(place), place, reading.problems)
        if section is not None:
            section.refuse_others(("transforms", "on_error"))
            on_error = section.text("on_error") or on_error
        place = (*place, "transforms")
        listed = reading.at(place)
    transforms: list[QueryTransform] = []
    for position, _ in enumerate(reading.items(place, listed)):
        chosen = reading.chosen((*place, position), QUERY_TRANSFORMS, "a transform")
        if chosen is not None:
            transform = _built(reading, chosen, models, QueryTransform, "transform(query)")
            transforms += [] if transform is None else [transform]
    try:
        return PreRetrieval(transforms=tuple(transforms), on_error=on_error)
    except ConfigError as error:
        reading.wrong(("pre_retrieval", "on_error"), str(error))
        return PreRetrieval()


def _retrieval(reading: PipelineFile) -> Any:
    """The settings of stage 3; None when they are wrong."""
    chosen = reading.chosen(("retrieval",), RETRIEVALS, "retrieval", default="bm25")
    if chosen is None:
        return None
    if not chosen.own:
        return reading.from_settings(chosen.target, chosen.settings, chosen.place, chosen.name)
    settings = dict(chosen.settings)
    top_k = settings.pop("top_k", 5)
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        problem = f"top_k must be a whole number from 1, not {top_k!r}"
        reading.wrong((*chosen.place, "top_k"), problem)
        top_k = 1
    rag = reading.trying(
        chosen,
        lambda: own_rag(chosen.name, settings, folder=reading.folder, family="retrieval"),
    )
    if rag is None:
        return None
    return OwnRetrieval(rag=rag, spec=chosen.name, settings=settings, top_k=top_k)


def _post_retrieval(
    reading: PipelineFile, models: PipelineModels, service: LateSearch
) -> PostRetrieval | None:
    if reading.at(("post_retrieval",)) is None:
        return None
    resources = Resources(service=service, chat=models.shared(), folder=reading.folder)
    stage, problems = read_stage(reading.file, ("post_retrieval",), resources)
    reading.problems.extend(problems)
    return stage


def _generation(reading: PipelineFile, models: PipelineModels) -> Any:
    """The settings of stage 5, or what answers; None when they are wrong."""
    chosen = reading.chosen(("generation",), GENERATIONS, "generation", default="extractive")
    if chosen is None:
        return None
    if not chosen.own:
        made = models.for_stage(chosen)
        return reading.from_settings(
            chosen.target, chosen.settings, chosen.place, chosen.name, made
        )
    rag = reading.trying(
        chosen,
        lambda: own_rag(chosen.name, chosen.settings, folder=reading.folder, family="generation"),
    )
    if rag is None:
        return None
    return OwnGenerator(rag=rag, spec=chosen.name, settings=chosen.settings)


def _orchestration(reading: PipelineFile) -> tuple[Orchestration, OwnOrchestration | None]:
    place = ("orchestration",)
    chosen = reading.chosen(place, ORCHESTRATIONS, "orchestration", default="sequential")
    if chosen is None:
        return Orchestration(), None
    shared = {"rrf_k", "candidates", "concurrency"}
    settings = chosen.settings
    if chosen.own:
        settings = {key: value for key, value in settings.items() if key in shared}
    found: Orchestration | None = reading.from_settings(
        Orchestration, settings, chosen.place, "orchestration"
    )
    if not chosen.own:
        return found or Orchestration(), None
    rest = {key: value for key, value in chosen.settings.items() if key not in shared}
    own = reading.trying(
        chosen, lambda: own_orchestration(chosen.name, rest, folder=reading.folder)
    )
    return found or Orchestration(), own


def _built(
    reading: PipelineFile, chosen: Chosen, models: PipelineModels, kind: Any, method: str
) -> Any:
    """A stage's part; None, and a problem, when it cannot be built."""
    if not chosen.own:
        made = models.for_stage(chosen)
        return reading.from_settings(
            chosen.target, chosen.settings, chosen.place, chosen.name, made
        )
    part = reading.trying(
        chosen, lambda: built(chosen.name, chosen.settings, folder=reading.folder)
    )
    if part is None or isinstance(part, kind):
        return part
    reading.wrong(
        chosen.place, f"'{chosen.name}' is no {kind.__name__}: it lacks a name or {method}"
    )
    return None
