"""A pipeline from its file: everything that is wrong with it at once, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragbench.data.yaml_file import Place, read_yaml
from ragbench.errors import ConfigError, DataError
from ragbench.llm.budget import Budget
from ragbench.pipeline.combinations import impossible
from ragbench.pipeline.late_search import LateSearch
from ragbench.pipeline.models import Models
from ragbench.pipeline.orchestration import Orchestration
from ragbench.pipeline.own import (
    OwnGenerator,
    OwnOrchestration,
    OwnRetrieval,
    built,
    own_orchestration,
    own_rag,
)
from ragbench.pipeline.pipeline import Pipeline
from ragbench.pipeline.read_indexing import read_indexing
from ragbench.pipeline.reading import Chosen, Reading
from ragbench.pipeline.registries import GENERATIONS, ORCHESTRATIONS, RETRIEVALS
from ragbench.postretrieval.build import Resources
from ragbench.postretrieval.config import read_stage
from ragbench.postretrieval.operator import PostRetrieval
from ragbench.preretrieval.registry import QUERY_TRANSFORMS
from ragbench.preretrieval.stage import PreRetrieval
from ragbench.preretrieval.transform import QueryTransform
from ragbench.settings.section import Section

__all__ = ["SECTIONS", "load_pipeline"]

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
    reading = Reading(file=read_yaml(path), folder=path.resolve().parent)
    top = Section.of(reading.file, reading.file.value, (), reading.problems)
    if top is None:
        reading.finish()
        raise DataError(reading.problems)
    top.refuse_others(SECTIONS)
    name = top.text("name") or path.stem
    models = Models(reading=reading, environ=environ or {}, defaults=llm or {}, budget=budget)
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


def _pre_retrieval(reading: Reading, models: Models) -> PreRetrieval:
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


def _retrieval(reading: Reading) -> Any:
    """The settings of stage 3; None when they are wrong."""
    chosen = reading.chosen(("retrieval",), RETRIEVALS, "retrieval", default="bm25")
    if chosen is None:
        return None
    if not chosen.own:
        return reading.from_settings(chosen.target, chosen.settings, chosen.place, chosen.name)
    settings = dict(chosen.settings)
    top_k = settings.pop("top_k", 5)
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        told = f"top_k must be a whole number from 1, not {top_k!r}"
        reading.wrong((*chosen.place, "top_k"), told)
        top_k = 1
    rag = reading.trying(
        chosen,
        lambda: own_rag(chosen.name, settings, folder=reading.folder, family="retrieval"),
    )
    if rag is None:
        return None
    return OwnRetrieval(rag=rag, spec=chosen.name, settings=settings, top_k=top_k)


def _post_retrieval(reading: Reading, models: Models, service: LateSearch) -> PostRetrieval | None:
    if reading.at(("post_retrieval",)) is None:
        return None
    resources = Resources(service=service, chat=models.shared(), folder=reading.folder)
    stage, problems = read_stage(reading.file, ("post_retrieval",), resources)
    reading.problems.extend(problems)
    return stage


def _generation(reading: Reading, models: Models) -> Any:
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


def _orchestration(reading: Reading) -> tuple[Orchestration, OwnOrchestration | None]:
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


def _built(reading: Reading, chosen: Chosen, models: Models, kind: Any, method: str) -> Any:
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
