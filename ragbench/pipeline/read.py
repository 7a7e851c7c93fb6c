"""A pipeline from its file, and what cannot go together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from ragbench.errors import ConfigError
from ragbench.io.settings import Place, built_own, converted
from ragbench.io.yaml_file import read_yaml, shown
from ragbench.llm.budget import Budget
from ragbench.pipeline.documents import Indexing
from ragbench.pipeline.pipeline import (
    OwnGenerator,
    OwnRetrieval,
    Pipeline,
    own_orchestration,
    own_rag,
)
from ragbench.pipeline.pre_retrieval import QUERY_TRANSFORMS, PreRetrieval, QueryTransform
from ragbench.pipeline.sections import Chosen, PipelineFile, PipelineModels, read_indexing
from ragbench.pipeline.stages import (
    GENERATIONS,
    ORCHESTRATIONS,
    RETRIEVALS,
    LateSearch,
    Orchestration,
    RetrievalStage,
)
from ragbench.plugins import Registry
from ragbench.post.build import Resources, read_stage
from ragbench.post.rerank import Rerank
from ragbench.post.stage import PostRetrieval
from ragbench.stores.registry import check_foreign_address

Rule = tuple[object, Place, str]
"""Whether something is wrong, where, and what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Together:
    """The stages of a file, each right by itself: what of them cannot go together."""

    reading: PipelineFile
    indexing: Indexing
    retrieval: RetrievalStage
    post_retrieval: PostRetrieval | None
    generation: Any

    def rules(self) -> Iterator[Rule]:
        section = self._section("indexing")
        own = isinstance(self.retrieval, OwnRetrieval)
        if section.get("map") is not None and not own:
            yield from self._of_foreign(section)
        else:
            yield from self._of_own(section, own=own)
        yield from self._of_embeddings()

    def _section(self, key: str) -> Mapping[str, object]:
        value = self.reading.at((key,))
        return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}

    @property
    def _retrieval_name(self) -> str:
        named = self.reading.at(("retrieval", "type")) or self.reading.at(("retrieval",))
        return named if isinstance(named, str) else "bm25"

    def _of_own(self, section: Mapping[str, object], *, own: bool) -> Iterator[Rule]:
        retrieval, name = self.retrieval, self._retrieval_name
        yield (
            getattr(retrieval, "native_filter", None),
            ("retrieval", "native_filter"),
            "only a collection that ragbench did not fill (indexing: map) takes filters in the "
            "store's own syntax: use 'filters'",
        )
        own_index = "retrieval is a class of your own: it brings its own index"
        yield own and section, ("indexing",), own_index
        for key in ("store", "collection", "embedder"):
            yield (
                key in section and not own and not retrieval.uses_store,
                ("indexing", key),
                f"'{key}' has no use with {name}, which uses no store: leave it out, or take "
                "dense, sparse or hybrid retrieval",
            )
        no_vectors = section.get("embedder", "") is None and self.indexing.embedder is None
        yield (
            no_vectors and retrieval.uses_store and not own,
            ("indexing", "embedder"),
            "search by meaning needs vectors: name an embedder, or take sparse retrieval",
        )
        wanted: int = getattr(self.generation, "max_contexts", None) or 0
        operators = () if self.post_retrieval is None else self.post_retrieval.operators
        yield (
            wanted > retrieval.top_k and not any(one.name.startswith("merge") for one in operators),
            ("generation", "max_contexts"),
            f"max_contexts is {wanted}, and retrieval gives at most {retrieval.top_k} (top_k)",
        )
        asked = self._section("generation").get("word_weights") == "corpus"
        yield (
            asked and not retrieval.knows_word_weights,
            ("generation", "word_weights"),
            f"what words are worth in the corpus is not known to {'your own' if own else name} "
            "retrieval",
        )

    def _of_foreign(self, section: Mapping[str, object]) -> Iterator[Rule]:
        """What cannot be said of a collection that ragbench did not fill."""
        retrieval, mapped = self.retrieval, ("indexing", "map")
        for key in ("corpus", "chunker"):
            yield (
                key in section,
                ("indexing", key),
                f"'{key}' is there to fill a collection, 'map' to read one that is filled: leave "
                "one of both out",
            )
        try:
            check_foreign_address(self.indexing.settings.store)
        except ConfigError as error:
            yield True, ("indexing", "store" if "store" in section else "map"), str(error)
        named = "'map' needs the name of a collection: add 'collection: NAME'"
        yield not section.get("collection"), mapped, named
        yield (
            section.get("embedder") is None and self._retrieval_name != "sparse",
            mapped,
            "'map' needs what the collection's vectors were made by: add 'embedder: NAME'",
        )
        yield (
            not retrieval.uses_store,
            ("retrieval",),
            "this retrieval reads no collection that ragbench did not fill: take dense, sparse or "
            "hybrid",
        )
        yield (
            retrieval.uses_store and retrieval.gives_embeddings,
            ("retrieval", "embeddings"),
            "the vectors of a collection that ragbench did not fill are not read: leave "
            "'embeddings' out",
        )

    def _of_embeddings(self) -> Iterator[Rule]:
        post = self.post_retrieval
        listed = ("operators",) if self._section("post_retrieval") else ()
        for position, operator in enumerate(() if post is None else post.operators):
            reranker = operator.reranker if isinstance(operator, Rerank) else None
            yield (
                getattr(reranker, "needs_embeddings", False)
                and not self.retrieval.gives_embeddings,
                ("post_retrieval", *listed, position),
                f"the reranker {getattr(reranker, 'name', '')} compares embeddings, and retrieval "
                "gives none: take dense or hybrid retrieval with 'embeddings: true', or another "
                "reranker",
            )


SECTIONS = (
    "name", "llm", "indexing", "pre_retrieval", "retrieval", "post_retrieval", "generation",
    "orchestration",
)  # fmt: skip
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
    top = reading.mapping((), SECTIONS)
    if not isinstance(reading.file.value, Mapping):
        reading.finish()
    name = top.get("name")
    if name is not None and (not isinstance(name, str) or not name):
        reading.wrong(("name",), f"expected a text, found {shown(name)}")
    models = PipelineModels(
        reading=reading, environ=environ or {}, defaults=llm or {}, budget=budget
    )
    if reading.at(("llm",)) is not None:
        models.shared()  # says what is wrong with it, also when no stage needs it
    service = LateSearch()
    pre_retrieval = _pre_retrieval(reading, models)
    indexing = read_indexing(reading)
    retrieval = _retrieval(reading)
    post_retrieval = _post_retrieval(reading, models, service)
    generation = _stage(
        reading,
        ("generation",),
        GENERATIONS,
        "generation",
        _own_generator,
        default="extractive",
        models=models,
    )
    orchestration, own = _orchestration(reading)
    if retrieval is not None:
        together = _Together(
            reading=reading,
            indexing=indexing,
            retrieval=retrieval,
            post_retrieval=post_retrieval,
            generation=generation,
        )
        for is_wrong, place, message in together.rules():
            if is_wrong:
                reading.wrong(place, message)
    reading.finish()
    assert retrieval is not None
    return Pipeline(
        path=path,
        name=name or path.stem,
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


def _stage(
    reading: PipelineFile,
    place: Place,
    registry: Registry,
    what: str,
    own: Callable[[Chosen, Path], Any],
    *,
    default: str | None = None,
    models: PipelineModels | None = None,
) -> Any:
    """What a file chooses: settings of one of ours, or a class of the user's; None where wrong."""
    chosen = reading.chosen(place, registry, what, default)
    if chosen is None:
        return None
    if chosen.own:
        return reading.built(place, chosen.settings, lambda: own(chosen, reading.folder))
    return reading.made(chosen, None if models is None else models.for_stage(chosen))


def _pre_retrieval(reading: PipelineFile, models: PipelineModels) -> PreRetrieval:
    place: Place = ("pre_retrieval",)
    listed: object = reading.at(place)
    if listed is None:
        return PreRetrieval()
    on_error: Any = "keep"
    if isinstance(listed, Mapping):
        section = reading.mapping(place, ("transforms", "on_error"))
        on_error = section.get("on_error") or on_error
        place = (*place, "transforms")
        listed = section.get("transforms")
    found = [
        _stage(
            reading, (*place, at), QUERY_TRANSFORMS, "a transform", _own_transform, models=models
        )
        for at, _ in enumerate([] if listed is None else reading.items(place))
    ]
    transforms = tuple(one for one in found if one is not None)
    made = reading.built(
        ("pre_retrieval", "on_error"),
        on_error,
        lambda: PreRetrieval(transforms=transforms, on_error=on_error),
    )
    return made or PreRetrieval()


def _own_transform(chosen: Chosen, folder: Path) -> QueryTransform:
    made = built_own(chosen.name, chosen.settings, folder=folder)
    if not isinstance(made, QueryTransform):
        raise ConfigError(
            f"'{chosen.name}' is no QueryTransform: it lacks a name or transform(query)"
        )
    return made


def _retrieval(reading: PipelineFile) -> RetrievalStage | None:
    """The settings of stage 3; None when they are wrong."""
    place: Place = ("retrieval",)
    found = _stage(reading, place, RETRIEVALS, "retrieval", _own_retrieval, default="bm25")
    if found is None or isinstance(found, RetrievalStage):
        return found
    name = f"{RetrievalStage.__module__}.{RetrievalStage.__name__}"
    reading.wrong(place, f"'{type(found).__name__}' does not inherit {name}")
    return None


def _own_retrieval(chosen: Chosen, folder: Path) -> OwnRetrieval:
    settings = dict(chosen.settings)
    top_k = converted(settings.pop("top_k", 5), int, "top_k")
    if top_k < 1:
        raise ConfigError(f"top_k must be at least 1, not {top_k}")
    rag = own_rag(chosen.name, settings, folder=folder, family="retrieval")
    return OwnRetrieval(rag=rag, spec=chosen.name, settings=settings, top_k=top_k)


def _own_generator(chosen: Chosen, folder: Path) -> OwnGenerator:
    rag = own_rag(chosen.name, chosen.settings, folder=folder, family="generation")
    return OwnGenerator(rag=rag, spec=chosen.name, settings=chosen.settings)


def _post_retrieval(
    reading: PipelineFile, models: PipelineModels, service: LateSearch
) -> PostRetrieval | None:
    if reading.at(("post_retrieval",)) is None:
        return None
    resources = Resources(service=service, chat=models.shared(), folder=reading.folder)
    return read_stage(reading, ("post_retrieval",), resources)


def _orchestration(reading: PipelineFile) -> tuple[Orchestration, Any]:
    """The settings, and what makes a RAG of the user's, where there is one."""
    place = ("orchestration",)
    chosen = reading.chosen(place, ORCHESTRATIONS, "orchestration", default="sequential")
    if chosen is None:
        return Orchestration(), None
    if not chosen.own:
        return reading.made(chosen, target=Orchestration) or Orchestration(), None
    shared = {one.name for one in fields(Orchestration)}
    settings = {key: value for key, value in chosen.settings.items() if key in shared}
    rest = {key: value for key, value in chosen.settings.items() if key not in shared}
    found = reading.made(replace(chosen, settings=settings), target=Orchestration)
    own = reading.built(
        place, None, lambda: own_orchestration(chosen.name, rest, folder=reading.folder)
    )
    return found or Orchestration(), own
