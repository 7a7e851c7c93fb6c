"""A pipeline from its file: the sections, read one by one, and what cannot go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ragbench.core.chat import ChatModel
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.io.settings import Makers, Place, built_own, converted, from_settings, placed_model
from ragbench.io.values import as_object
from ragbench.io.yaml_file import SettingsFile, is_own, read_yaml, shown
from ragbench.llm.budget import Budget
from ragbench.llm.session import Chat, chat_of
from ragbench.llm.settings import resolve
from ragbench.plugins import Registry
from ragbench.post.build import Resources, counter_makers, read_stage
from ragbench.post.rerank import Rerank
from ragbench.post.stage import PostRetrieval
from ragbench.safe_text import listed_names
from ragbench.search.embedders.embedder import (
    EMBEDDERS,
    NO_EMBEDDER,
    open_embedder,
    placed_embedder,
)
from ragbench.search.embedders.loaded import embedder_of_target
from ragbench.search.pipeline.documents import (
    CHUNKERS,
    Chunker,
    ChunkSize,
    Indexing,
    IndexingSettings,
    make_chunker,
)
from ragbench.search.pipeline.pipeline import (
    OwnGenerator,
    OwnRetrieval,
    Pipeline,
    own_make,
    own_rag,
)
from ragbench.search.pipeline.pre_retrieval import QUERY_TRANSFORMS, PreRetrieval, QueryTransform
from ragbench.search.pipeline.stages import (
    GENERATIONS,
    ORCHESTRATIONS,
    RETRIEVALS,
    LateSearch,
    Orchestration,
    RetrievalStage,
)
from ragbench.search.stores.database import (
    check_foreign_address,
    check_store_address,
    placed_address,
)
from ragbench.search.stores.mapping import FieldMapping

Rules = Iterable[tuple[object, Place, str]]
"""Whether something is wrong, where, and what."""
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
_NAME_ONE = "name one in a section 'llm' of this file or of ragbench.yaml, or in RAGBENCH_LLM_MODEL"


class Chosen(Record):
    """Which implementation of a stage a file chooses, with what settings."""

    name: str
    """The registered name, or that of a user's class."""
    settings: Mapping[str, Any]
    """Without the name."""
    place: Place
    """Where in the file it is chosen, for problems."""
    target: Any = None
    """The registered class; None for a user's."""


@dataclass(kw_only=True, slots=True)
class PipelineFile(SettingsFile):
    """A pipeline's file while it is read: problems are noted, and raised together at the end."""

    def chosen(
        self, place: Place, registry: Registry, what: str, default: str | None = None
    ) -> Chosen | None:
        """The implementation of a stage that the file chooses, by a name or a ``type``.

        Where the name is unknown, a problem is noted and the result is None. A user's class is only
        named here, not imported.

        Args:
            place: where in the file it is chosen.
            registry: the implementations by name.
            what: the kind of implementation, for errors.
            default: the name that holds where the file has none.
        """
        value = self.at(place)
        name_place = place
        settings: dict[str, Any] = {}
        if isinstance(value, str):
            name: object = value
        else:
            settings = self.mapping(place)  # notes what is neither a name nor a mapping
            name = settings.pop("type", default)
            if isinstance(value, Mapping) and "type" in value:
                name_place = (*place, "type")
        if value is not None and not isinstance(value, (str, Mapping)):
            return None  # noted above
        if name is None:
            known_names = ", ".join(registry.targets())
            self.wrong(place, f"{what} needs a 'type'. Known: {known_names}")
            return None
        if is_own(name):
            return Chosen(name=str(name), settings=settings, place=place)
        if not (isinstance(name, str) and registry.has(name)):
            hint = listed_names(name, list(registry.targets()))
            self.wrong(
                name_place,
                f"unknown type {shown(name)} of {what}.{hint}, or a class of your own such as "
                "my_module:Class or file.py:Class",
            )
            return None
        target = registry.load(name)
        return Chosen(name=name, settings=settings, place=place, target=target)

    def made(self, chosen: Chosen, makers: Makers | None = None) -> Any:
        """One of ragbench's own implementations, built with the file's settings.

        None where a setting is wrong: then the problem is noted at its line.

        Args:
            makers: make values that a file cannot hold, such as a language model.
        """
        make = partial(
            from_settings,
            chosen.target,
            chosen.settings,
            where=chosen.name,
            made=makers,
            folder=self.folder,
        )
        return self.built(chosen.place, chosen.settings, make)

    def stage(
        self,
        place: Place,
        registry: Registry,
        what: str,
        own: Callable[[Chosen, Path], Any],
        *,
        default: str | None = None,
        models: Models | None = None,
    ) -> Any:
        """A stage's implementation, built: ragbench's own or a user's class.

        None where the file's settings of the stage are wrong: the problem is noted at its line.

        Args:
            place: where in the file it is chosen.
            registry: ragbench's own implementations by name.
            what: the kind of implementation, for errors.
            own: makes an implementation of a user's class, relative to the file's folder.
            default: the name that holds where the file has none.
            models: makes the language models of our own; None for stages without any.
        """
        chosen = self.chosen(place, registry, what, default)
        if chosen is None:
            return None
        # Ours have a registered class; a user's is loaded by its own name.
        if chosen.target is None:
            return self.built(place, chosen.settings, lambda: own(chosen, self.folder))
        makers = models.for_stage(chosen) if models is not None else None
        return self.made(chosen, makers)

    def check(self, rules: Rules) -> None:
        """Notes a problem for each broken rule: a user sees every problem of the file at once.

        A rule is whether something is wrong, its place in the file, and a message.
        """
        for is_wrong, place, message in rules:
            if is_wrong:
                self.wrong(place, message)

    @property
    def retrieval_name(self) -> str:
        """The name of the retrieval in the file, before that section is read.

        Indexing depends on it. ``bm25`` is meant where the file names none.
        """
        value = self.at(("retrieval", "type")) or self.at(("retrieval",))
        return value if isinstance(value, str) else "bm25"


@dataclass(kw_only=True, slots=True)
class Models:
    """Makes the models that stages need, each once; none is connected."""

    reading: PipelineFile
    """The file whose sections describe them; it notes what is wrong with these."""
    environ: Mapping[str, str]
    """Variables that settings may come from."""
    defaults: Mapping[str, object]
    """Settings that hold where the file says nothing."""
    budget: Budget | None = None
    """Caps what all of them cost together."""
    made: dict[Place, Chat | None] = field(default_factory=dict[Place, Chat | None])
    """The models so far, by the section that describes them; None where there is none."""

    def for_stage(self, chosen: Chosen) -> Makers:
        """A maker of a stage's language model, for settings of that type.

        ``llm`` leaves the settings. The model is the file's, or the one of the stage's own ``llm``
        over it.

        Args:
            chosen: the stage, whose settings lose ``llm``.
        """
        settings: Any = chosen.settings
        place: Place = ("llm",)
        if settings.pop("llm", None) is not None:
            place = (*chosen.place, "llm")
        return {ChatModel: lambda _: self._model_of_stage(chosen, place)}

    def _model_of_stage(self, chosen: Chosen, place: Place) -> ChatModel:
        """The language model of a stage; its calls are counted under the stage's name.

        A model that never answers stands in where none is named or its section is wrong. The
        problem is noted, so the file is never opened; the stage's other settings can be checked all
        the same.

        Args:
            chosen: the stage.
            place: of the section that describes the model.
        """
        model = self.model(place)
        if model is not None:
            return model.booked_under(str(chosen.place[0]))
        # What is wrong with a section is noted already.
        if self.reading.at(place) is None:
            self.reading.wrong(chosen.place, f"{chosen.name} needs a language model: {_NAME_ONE}")
        return cast("ChatModel", _NO_MODEL)

    def model(self, place: Place = ("llm",)) -> Chat | None:
        """The language model that a section describes, made once; None where there is none.

        Stages without a section of their own share the file's ``llm``, and so its cache and budget.
        Sections are made once, so that a model's connections and counts are shared.
        """
        if place not in self.made:
            self.made[place] = self._new_model(place)
        return self.made[place]

    def _new_model(self, place: Place) -> Chat | None:
        """A new language model of a section; None where no model is named, or a section is wrong.

        A stage's section takes precedence over the file's ``llm``, and that over the defaults.
        """
        reading = self.reading
        # For the model of the file's own section ``llm``, `shared` and `own` are the same.
        shared = placed_model(reading.mapping(("llm",)), reading.folder)
        own = placed_model(reading.mapping(place), reading.folder)
        section = {**self.defaults, **shared, **own}
        is_named = "model" in section or bool(self.environ.get("RAGBENCH_LLM_MODEL"))
        if not is_named and not own:
            return None  # a stage that needs a model says so
        return reading.built(place, own, lambda: self._chat(section))

    def _chat(self, section: Mapping[str, object]) -> Chat:
        """The language model of these settings, under the pipeline's budget; nothing is connected.

        A call later on may cost money, and counts towards the budget.

        Raises:
            ConfigError: a setting is wrong; the message leaves out the section, which the file's
                problem names anyway.
        """
        try:
            return chat_of(resolve({}, self.environ, section=section), budget=self.budget)
        except ConfigError as error:
            # `resolve` begins with its file and section, which are noted here anyway.
            raise ConfigError(str(error).removeprefix(": llm.")) from error


_NO_MODEL: Any = SimpleNamespace(name="none", temperature=None, complete=None, ask=None)
"""Replaces a model that is not there, so that the other settings are looked at, too. It is never
called: a file with problems is never opened."""


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
    name = top.get("name")
    if name is not None and (not isinstance(name, str) or not name):
        reading.wrong(("name",), f"expected a text, found {shown(name)}")
    models = Models(reading=reading, environ=environ or {}, defaults=llm or {}, budget=budget)
    if reading.at(("llm",)) is not None:
        models.model()  # notes what is wrong with it, also when no stage needs it
    service = LateSearch()
    pre_retrieval = _pre_retrieval_section(reading, models)
    indexing = _indexing_section(reading)
    retrieval: RetrievalStage | None = reading.stage(
        ("retrieval",), RETRIEVALS, "retrieval", _own_retrieval, default="bm25"
    )
    post_retrieval = _post_retrieval_section(reading, models, service)
    generation = reading.stage(
        ("generation",),
        GENERATIONS,
        "generation",
        _own_generator,
        default="extractive",
        models=models,
    )
    orchestration, own_orchestration = _orchestration_section(reading)
    if retrieval is not None:
        reading.check(_index_rules(reading, indexing, retrieval))
        reading.check(_stage_rules(reading, retrieval, post_retrieval, generation))
    reading.finish()  # raises the problems, if there are any
    assert retrieval is not None  # else there was a problem
    return Pipeline(
        path=path,
        name=name or path.stem,
        indexing=indexing,
        retrieval=retrieval,
        generation=generation,
        pre_retrieval=pre_retrieval,
        post_retrieval=post_retrieval,
        orchestration=orchestration,
        own_orchestration=own_orchestration,
        service=service,
        chats=tuple(chat for chat in models.made.values() if chat is not None),
    )


_INDEXING = ("indexing",)


def _indexing_section(reading: PipelineFile) -> Indexing:
    """The stage ``indexing`` of a pipeline's file: its settings, chunker and embedder.

    A wrong part is noted as a problem and left out, so that the other sections can still be
    checked.
    """
    section = reading.mapping(_INDEXING)
    # The map is a record by itself, with problems at places of its own.
    mapping = None
    if section.pop("map", None) is not None:
        mapping = reading.section((*_INDEXING, "map"), FieldMapping)
    make = partial(
        from_settings, IndexingSettings, section, where="indexing", folder=reading.folder
    )
    settings: IndexingSettings | None = reading.built(_INDEXING, section, make)
    if settings is None:
        return Indexing()
    store = placed_address(settings.store, reading.folder)
    settings = replace(settings, map=mapping, store=store)
    if settings.corpus is not None and not Path(settings.corpus).exists():
        place = (*_INDEXING, "corpus")
        reading.wrong(place, f"there is no file or folder '{section['corpus']}' beside this file")
    embedder_name, embedder_settings = _name_and_settings(settings.embedder)
    # A search by words needs no vectors, and no other search may want them: the file says so, or
    # the store ends with the run.
    is_in_memory = settings.store == IndexingSettings().store
    is_left_open = settings.embedder is None or (is_in_memory and "embedder" not in section)
    if settings.map is None and reading.retrieval_name == "sparse" and is_left_open:
        embedder_name = NO_EMBEDDER
    if EMBEDDERS.has(embedder_name.partition(":")[0]):
        embedder_name, embedder_settings = placed_embedder(
            embedder_name, embedder_settings, reading.folder
        )
    # Made only to be checked: the address is opened later.
    if settings.map is None:  # else the rules check it, as an address to read from
        _part_of_indexing(reading, "store", lambda: check_store_address(settings.store))
    return Indexing(
        settings=settings,
        chunker=_part_of_indexing(
            reading, "chunker", lambda: _chunker_of_file(reading, settings.chunker)
        ),
        embedder=_part_of_indexing(
            reading,
            "embedder",
            lambda: _embedder_of_file(reading, embedder_name, embedder_settings),
        ),
        embedder_name=embedder_name,
        names_embedder="embedder" in section or embedder_name == NO_EMBEDDER,
        embedder_settings=embedder_settings,
    )


def _part_of_indexing(reading: PipelineFile, key: str, make: Callable[[], Any]) -> Any:
    """A part of the section ``indexing``, such as its chunker; None where it cannot be made.

    One wrong part is a problem of the file, and does not hide the problems of the others.

    Args:
        key: of the part; the problem of a wrong one is noted there.
        make: makes the part.
    """
    place = (*_INDEXING, key)
    return reading.built(place, reading.at(place), make)


def _name_and_settings(value: str | Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The name of an implementation and its settings, of a name alone or a mapping with a ``name``.

    The name is empty where there is none. Embedders and chunkers are written so in a file.
    """
    if value is None or isinstance(value, str):
        return value or "", {}
    settings = {str(key): setting for key, setting in value.items()}
    name = str(settings.pop("name", ""))
    return name, settings


def _embedder_of_file(reading: PipelineFile, name: str, settings: Mapping[str, Any]) -> Any:
    """The embedder that the file names, ours or a user's; no model is loaded or connected yet.

    None without a name: whether one is needed is checked with the retrieval.
    """
    if not name:
        return None  # whether one is needed is checked with the retrieval
    if is_own(name) and not EMBEDDERS.has(name.partition(":")[0]):
        return embedder_of_target(name, settings, search_path=reading.folder)
    try:
        return open_embedder(name, **settings)
    except TypeError as error:
        raise ConfigError(f"embedder '{name}': {error}") from error


def _chunker_of_file(
    reading: PipelineFile, value: str | Mapping[str, Any] | None
) -> Chunker | None:
    """The chunker that the file names, ours or a user's; None leaves the choice to the retrieval.

    BM25 in memory keeps documents whole, a store cuts them as ``auto``.

    Raises:
        ConfigError: the name is unknown, a setting is wrong, or a user's class is no chunker.
    """
    if value is None:
        return None
    name, settings = _name_and_settings(value)
    if is_own(name):
        made = built_own(name, settings, folder=reading.folder)
        if not hasattr(made, "pieces"):
            raise ConfigError(f"'{name}' is not a chunker: it lacks pieces(document)")
        return cast("Chunker", made)
    CHUNKERS.load(name)  # an unknown name is wrong before its settings are
    makers = counter_makers("chunker", reading.folder)
    size = from_settings(ChunkSize, settings, where="chunker", made=makers)
    return make_chunker(name, cast("ChunkSize", size))


def _pre_retrieval_section(reading: PipelineFile, models: Models) -> PreRetrieval:
    """The stage ``pre_retrieval`` of a pipeline's file: a list of transforms of the question.

    A mapping may hold the list beside ``on_error``. A wrong transform is noted and left out.
    """
    place: Place = ("pre_retrieval",)
    on_error: Any = "keep"
    if isinstance(reading.at(place), Mapping):
        section = reading.mapping(place, ("transforms", "on_error"))
        # A null in the file leaves the default.
        on_error = section.get("on_error") or on_error
        place = (*place, "transforms")
    transforms: list[QueryTransform] = []
    if reading.at(place) is not None:
        for position, _ in enumerate(reading.items(place)):
            transform = reading.stage(
                (*place, position), QUERY_TRANSFORMS, "a transform", _own_transform, models=models
            )
            if transform is not None:
                transforms.append(transform)
    make = partial(PreRetrieval, transforms=tuple(transforms), on_error=on_error)
    return reading.built(("pre_retrieval", "on_error"), on_error, make) or PreRetrieval()


def _post_retrieval_section(
    reading: PipelineFile, models: Models, service: LateSearch
) -> PostRetrieval | None:
    """The stage ``post_retrieval`` of a pipeline's file; None where the file has no such section.

    Its operators are read by `ragbench.post.build`.

    Args:
        models: make the language models of operators.
        service: searches again for operators that ask for it, once the pipeline is open.
    """
    place: Place = ("post_retrieval",)
    if reading.at(place) is None:
        return None
    resources = Resources(service=service, chat=models.model(), folder=reading.folder)
    return read_stage(reading, place, resources)


def _own_transform(chosen: Chosen, folder: Path) -> QueryTransform:
    """A user's query transform, built while the file is read: it needs no open stage.

    The class has to have the form of `QueryTransform`.

    Raises:
        ConfigError: it has no name, or no method ``transform``.
    """
    made = built_own(chosen.name, chosen.settings, folder=folder)
    if not isinstance(made, QueryTransform):
        problem = "is no QueryTransform: it lacks a name or transform(query)"
        raise ConfigError(f"'{chosen.name}' {problem}")
    return made


def _own_retrieval(chosen: Chosen, folder: Path) -> OwnRetrieval:
    """A user's retrieval, built while the file is read.

    Its ``top_k`` is a setting of the stage, not an argument of the class.

    Raises:
        ConfigError: ``top_k`` is wrong, or the class cannot be a retrieval.
    """
    settings = dict(chosen.settings)
    top_k = converted(settings.pop("top_k", 5), int, "top_k")
    if top_k < 1:
        raise ConfigError(f"top_k must be at least 1, not {top_k}")
    rag = own_rag(chosen.name, settings, folder=folder, family="retrieval")
    return OwnRetrieval(rag=rag, spec=chosen.name, settings=settings, top_k=top_k)


def _own_generator(chosen: Chosen, folder: Path) -> OwnGenerator:
    """A user's generator, built while the file is read: it needs no open stage.

    A wrong class or argument shows before anything is indexed.

    Raises:
        ConfigError: the class cannot be a generator.
    """
    rag = own_rag(chosen.name, chosen.settings, folder=folder, family="generation")
    return OwnGenerator(rag=rag, spec=chosen.name, settings=chosen.settings)


def _orchestration_section(reading: PipelineFile) -> tuple[Orchestration, Any]:
    """The settings of the stage ``orchestration``, and a function for a user's own RAG.

    The function makes a RAG of the open stages; it is None for ragbench's own orchestration.
    Settings that ours has, too, are ours; the others are arguments of the user's class.
    """
    place = ("orchestration",)
    chosen = reading.chosen(place, ORCHESTRATIONS, "orchestration", default="sequential")
    if chosen is None:
        return Orchestration(), None
    own_orchestration = None
    if chosen.target is None:
        # A class of the user's has our settings, too; the others are its own.
        spec = chosen.name
        names = {field.name for field in fields(Orchestration)}
        shared: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in chosen.settings.items():
            if key in names:
                shared[key] = value
            else:
                own[key] = value
        own_orchestration = reading.built(
            place, None, lambda: own_make(spec, own, folder=reading.folder)
        )
        # The shared settings are checked by building ragbench's own class with them.
        chosen = replace(chosen, settings=shared, target=Orchestration)
    return reading.made(chosen) or Orchestration(), own_orchestration


def _index_rules(reading: PipelineFile, indexing: Indexing, retrieval: RetrievalStage) -> Rules:
    """The rules between the section ``indexing`` and the retrieval: settings it ignores or lacks.

    A setting without effect is refused, since the user believes that it has one.
    """
    section = as_object(reading.at(("indexing",)))
    name = reading.retrieval_name
    if isinstance(retrieval, OwnRetrieval):
        yield section, ("indexing",), "retrieval is a class of your own: it brings its own index"
        return
    if section.get("map") is not None:
        yield from _foreign_rules(section, name, indexing, retrieval)
        return
    yield (
        getattr(retrieval, "native_filter", None),
        ("retrieval", "native_filter"),
        "only a collection that ragbench did not fill (indexing: map) takes filters in the "
        "store's own syntax: use 'filters'",
    )
    for key in ("store", "collection", "embedder"):
        yield (
            key in section and not retrieval.uses_store,
            ("indexing", key),
            f"'{key}' is not used by {name}, which has no store: remove it, or choose dense, "
            "sparse or hybrid retrieval",
        )
    yield (
        # Written as null: what is left out has a default, and is no problem.
        section.get("embedder", "") is None and not indexing.embedder and retrieval.uses_store,
        ("indexing", "embedder"),
        "search by meaning needs vectors: name an embedder, or take sparse retrieval",
    )


def _foreign_rules(
    section: Mapping[str, object], name: str, indexing: Indexing, retrieval: RetrievalStage
) -> Rules:
    """The rules for a pipeline over another program's collection (``map``), which is only read.

    Settings that would fill it are refused; its name and its embedder have to be there.
    """
    mapped = ("indexing", "map")
    for key in ("corpus", "chunker"):
        yield (
            key in section,
            ("indexing", key),
            f"'{key}' is there to fill a collection, 'map' to read one that is filled: leave "
            "one of both out",
        )
    try:
        check_foreign_address(indexing.settings.store)
    except ConfigError as error:
        yield True, ("indexing", "store" if "store" in section else "map"), str(error)
    missing = "'map' needs the name of a collection: add 'collection: NAME'"
    yield not section.get("collection"), mapped, missing
    yield (
        section.get("embedder") is None and name != "sparse",
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


def _stage_rules(
    reading: PipelineFile,
    retrieval: RetrievalStage,
    post_retrieval: PostRetrieval | None,
    generation: Any,
) -> Rules:
    """The rules between retrieval and the later stages: settings that need more than it gives.

    A generator may take more contexts than are retrieved, or a reranker compare embeddings where
    retrieval gives none. Without these rules a run would only fail, or be wrong, much later.
    """
    operators = () if post_retrieval is None else post_retrieval.operators
    fused = as_object(reading.at(("retrieval",))).get("candidates")
    yield (
        isinstance(fused, int) and fused < retrieval.top_k,
        ("retrieval", "candidates"),
        f"candidates is {fused}: fewer chunks of each ranking than top_k ({retrieval.top_k}) "
        "cannot be fused",
    )
    max_contexts: int = getattr(generation, "max_contexts", None) or 0
    # Operators that merge bring in chunks beyond those that retrieval gives.
    merges = any(operator.name.startswith("merge") for operator in operators)
    yield (
        max_contexts > retrieval.top_k and not merges,
        ("generation", "max_contexts"),
        f"max_contexts is {max_contexts}, and retrieval gives at most {retrieval.top_k} (top_k)",
    )
    weights = as_object(reading.at(("generation",))).get("word_weights")
    retrieval_name = reading.retrieval_name
    if isinstance(retrieval, OwnRetrieval):
        retrieval_name = "your own"
    yield (
        weights == "corpus" and not retrieval.knows_word_weights,
        ("generation", "word_weights"),
        f"what words are worth in the corpus is not known to {retrieval_name} retrieval",
    )
    # The section is a list of operators, or a mapping that holds it.
    listed = ("operators",) if as_object(reading.at(("post_retrieval",))) else ()
    for position, operator in enumerate(operators):
        reranker = operator.reranker if isinstance(operator, Rerank) else None
        yield (
            getattr(reranker, "needs_embeddings", False) and not retrieval.gives_embeddings,
            ("post_retrieval", *listed, position),
            f"the reranker {getattr(reranker, 'name', '')} compares embeddings, and retrieval "
            "gives none: take dense or hybrid retrieval with 'embeddings: true', or another "
            "reranker",
        )
