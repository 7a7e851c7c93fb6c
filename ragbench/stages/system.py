"""What is evaluated, and how: a RAG and what stands around its generation, as a list of stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ragbench.core.biography import POST_RETRIEVE
from ragbench.core.chunk import Document
from ragbench.core.metric import Metric
from ragbench.core.record import Record
from ragbench.core.roles import FieldRole
from ragbench.core.trace import STAGES
from ragbench.errors import ConfigError
from ragbench.io.only import Selection
from ragbench.ledger.fingerprint import fingerprint
from ragbench.metrics.matching import Matching
from ragbench.stages.stage import (
    LOCATE,
    NO_GENERATION,
    NO_RETRIEVAL,
    OWN,
    TURNS,
    AbsentStage,
    CallSettings,
)

if TYPE_CHECKING:
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.call_stage import CallStage
    from ragbench.stages.judge import JudgeStage
    from ragbench.stages.rag import RAG, Locator
    from ragbench.validators.validator import Validator

Stages: TypeAlias = "list[AbsentStage | CallStage[Any, Any]]"
"""Those up to generation, in order."""


def check_types(call: str, **arguments: tuple[object, type]) -> None:
    """Refuses arguments of a wrong type in the call's own words; None always passes.

    Each argument comes with its right type. A wrong one would else fail later, far from its cause.

    Raises:
        ConfigError: one is of another type.
    """
    for name, (value, kind) in arguments.items():
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{call}({name}=...) takes {kind.__name__}, and not {kind_of(value)}")


def kind_of(value: Any) -> str:
    """A value's type and its first characters, for the message of an error: ``str 'ten'``."""
    return f"{type(value).__name__} {str(value)[:60]!r}"


class EvalSettings(Record):
    """How a RAG is evaluated, beyond the usual arguments of `evaluate`."""

    name: str | None = None
    """The dataset's name in reports; by default that of the file or folder, else ``"dataset"``."""
    source: str | None = None
    """Where the dataset came from, in the report; by default the path that was given."""
    notes: Sequence[str] = ()
    """What a reader of scores must know of the source; stands in the report."""
    roles: Sequence[FieldRole] = ()
    """Where the fields of the cases were read from, and why; stands in the report."""
    rag_name: str | None = None
    """The system's name in reports; its class when not given."""
    rag_description: Mapping[str, Any] | None = None
    """What distinguishes the system; derived from it when not given."""
    top_k: int | None = None
    """Handed to retrieval; None leaves it to the system."""
    turns: Literal["recorded", "own"] = "recorded"
    """What a RAG that takes a history is told of earlier answers in a conversation: those that the
    dataset holds, or its own."""
    selection: Selection | None = None
    """Which of the cases to take; all when not given."""
    limits: CallSettings | None = None
    """Batch size, calls in flight, time limit."""
    matching: Matching = Matching.AUTO
    """How retrieved chunks are compared with the relevant ones."""
    corpus: Callable[[], Iterable[Document]] | None = None
    """Gives the documents that the system searches, where they are at hand: gold that none of them
    holds is then distinguished from gold that retrieval missed, and a retrieval that found nothing
    from one whose ids are of another kind."""
    locator: Locator | None = None
    """Says where the gold is that retrieval has missed, such as
    that of a pipeline; nothing when not given."""
    trust_stored: bool = False
    """Use stored outcomes even where nobody knows whether something has changed; the report says
    so."""
    retry_failed: bool = False
    """Compute again what failed in an earlier run."""

    def __post_init__(self) -> None:
        """Refuses a setting of a wrong type, and a `top_k` below 1, under the setting's name.

        Deep in a run, such a value would fail with an error that does not name it.
        """
        check_types(
            "EvalSettings",
            limits=(self.limits, CallSettings),
            top_k=(self.top_k, int),
            selection=(self.selection, Selection),
            matching=(self.matching, Matching),
        )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"EvalSettings(top_k=...) must be at least 1, not {self.top_k}")


class Evaluation(Record):
    """What is evaluated, as the manifest says it, and by what."""

    name: str
    description: Mapping[str, Any]
    stages: dict[str, str]
    """Fingerprint of how each stage is described that somebody can be asked for."""
    said: dict[str, Any]
    """Settings of the system."""
    settings: EvalSettings
    metrics: tuple[Metric, ...] = ()
    judge: JudgeStage | None = None
    """Who judges; None where no metric asks a model."""
    rag: RAG | None = None
    post_retrieval: PostRetrieval | None = None
    validator: Validator | None = None


def _settings_of_asking(rag: RAG | None, settings: EvalSettings) -> dict[str, Any]:
    """How the system is asked, as the run's manifest records it; usual settings are left out.

    A command whose record is another does not take a finished run's report for its own. Own turns
    are refused for a RAG without history.
    """
    said: dict[str, Any] = {"top_k": settings.top_k}
    if settings.turns == OWN:
        if rag is None or not rag.histories:
            raise ConfigError(
                "own turns are for a RAG that takes earlier turns: add a parameter history "
                "to its methods"
            )
        said[TURNS] = OWN
    return said


def evaluation_of(
    rag: RAG | None,
    settings: EvalSettings,
    *,
    post_retrieval: PostRetrieval | None,
    validator: Validator | None,
    version: str | None = None,
    metrics: tuple[Metric, ...],
    judge: JudgeStage | None,
) -> Evaluation:
    """Describes what is evaluated, and refuses parts that do not fit together.

    Nothing is asked yet. The description has the run's stages, each with a fingerprint under which
    its outcomes are kept: another fingerprint makes stored outcomes unusable.

    Args:
        rag: None where all outcomes are those that the source recorded.
        version: the version of the system, where the user names one.
        judge: who judges the metrics that ask a model; None where none does.

    Raises:
        ConfigError: the RAG lacks a stage that is asked for.
    """
    said = _settings_of_asking(rag, settings)
    stages: dict[str, str] = {}
    # Without a RAG all outcomes are those that the source recorded.
    name = settings.rag_name or "recorded"
    description = settings.rag_description or {"spec": "recorded"}
    if rag is not None:
        from ragbench.rag.load import describe_rag

        name = settings.rag_name or type(cast("object", rag)).__name__
        description = settings.rag_description or describe_rag(rag, name)
        # Part of the description, so that the version is in every stage's fingerprint.
        if version is not None:
            description = {**description, "stated_version": version}
        stages = _stage_fingerprints(rag, description, settings.top_k)
    if settings.locator is not None and "retrieve" in stages:
        # The fingerprint holds retrieval's: with other retrievals, other gold is missing, and the
        # locator is asked anew whenever retrieval is.
        stages[LOCATE] = fingerprint((LOCATE, stages["retrieve"]))
    if post_retrieval is not None:
        if rag is not None:
            _check_takes_contexts(rag)
        said[POST_RETRIEVE] = post_retrieval.identity
        stages[POST_RETRIEVE] = fingerprint((POST_RETRIEVE, post_retrieval.identity))
    if validator is not None:
        # Without a RAG the retrievals are recorded ones, which a validator can judge.
        if rag is not None and "retrieval" not in rag.families:
            raise ConfigError("the RAG does not retrieve: validation has nothing to judge")
        from ragbench.stages.validate import VALIDATE, validator_fingerprint

        stages[VALIDATE] = validator_fingerprint(validator)
    return Evaluation(
        name=name,
        description=description,
        stages=stages,
        said=said,
        settings=settings,
        metrics=metrics,
        judge=judge,
        rag=rag,
        post_retrieval=post_retrieval,
        validator=validator,
    )


def absent_stages(
    evaluation: Evaluation, recorded: Mapping[str, int], source: str
) -> dict[str, str]:
    """The stages that cannot be asked for, each with the reason that a case without a record gets.

    With neither a RAG nor any recorded outcome there is nothing to score: an error.

    Args:
        recorded: by stage, how many cases the source has outcomes for.
        source: where the cases are from, for the error.
    """
    rag = evaluation.rag
    if rag is None and not recorded:
        place = f" in {source}" if source else ""
        raise ConfigError(
            f"there is nothing to score{place}: it records neither "
            "retrievals nor responses, and there is no RAG to ask"
        )
    absent: dict[str, str] = {}
    for stage, cannot in (("retrieve", NO_RETRIEVAL), ("generate", NO_GENERATION)):
        if stage in evaluation.stages:
            continue
        # Where the source holds outcomes of it, a case without one is the source's gap.
        # The same without a RAG: nobody can be asked for an outcome.
        if rag is not None and stage not in recorded:
            absent[stage] = cannot
        else:
            absent[stage] = NOT_RECORDED
    # Further stages that the dataset has recorded, such as post-retrieval, and this run does not
    # ask for.
    for stage in recorded:
        if stage not in evaluation.stages:
            absent[stage] = NOT_RECORDED
    return absent


NOT_RECORDED = "not recorded"
"""The reason of a case whose outcome the source does not hold, where nobody can be asked."""


def call_stages(
    evaluation: Evaluation,
    absent: Mapping[str, str],
    identities: Mapping[str, str],
    generations: Mapping[str, int],
) -> Stages:
    """The stages of a run up to generation, in the order in which a case goes through them.

    A stage of the system is called; one that only the source recorded, or none has, is absent.

    Args:
        absent: stages that nobody can be asked for, each with the reason.
        identities: by stage, the fingerprint under which its outcomes are kept.
        generations: by stage, a number that grows whenever its outcomes are to be asked for anew.
    """
    if not evaluation.stages:  # nobody can be asked, and the modules below are not loaded
        return [AbsentStage(name=name, reason=absent[name]) for name in STAGES if name in absent]
    from ragbench.stages import rag as rag_stages

    top_k = evaluation.settings.top_k
    # A stage is described only where there is somebody to be asked: none of these is None then.
    rag: Any = evaluation.rag
    locator: Any = evaluation.settings.locator
    operators: Any = evaluation.post_retrieval
    makers: dict[str, Callable[..., CallStage[Any, Any]]] = {
        "retrieve": partial(rag_stages.retrieve_stage, rag, top_k=top_k),
        LOCATE: partial(rag_stages.locate_stage, locator, top_k=top_k),
        POST_RETRIEVE: partial(rag_stages.post_retrieve_stage, operators),
        "generate": partial(rag_stages.generate_stage, rag),
    }
    if evaluation.validator is not None:
        from ragbench.stages.validate import VALIDATE, validate_stage

        makers[VALIDATE] = partial(validate_stage, evaluation.validator)
    stages: Stages = []
    for name in STAGES:
        if name in absent:
            stages.append(AbsentStage(name=name, reason=absent[name]))
        elif name in evaluation.stages:
            # The generation is a number that grows when stored outcomes are dropped.
            identity = fingerprint((identities[name], generations[name]))
            stages.append(makers[name](bytes.fromhex(identity)))
    return stages


def _check_takes_contexts(rag: RAG) -> None:
    """Refuses post-retrieval for a RAG whose generation cannot be given other contexts.

    Operators come between retrieval and generation, so that the two must be separate calls; the
    error shows how to separate them.
    """
    from ragbench.rag.parts import AdaptedRAG

    if "retrieval" not in rag.families:
        raise ConfigError("the RAG does not retrieve: post-retrieval has nothing to work on")
    if isinstance(rag, AdaptedRAG) and rag.answers_its_own_contexts_alone:
        raise ConfigError(
            "operators cannot be inserted: the RAG retrieves and answers in one call. Let the "
            "function take contexts to answer from, def ask(question, contexts=None), and retrieve "
            "only if there are none; or split it into retrieve(query, top_k) and "
            "generate(query, contexts). As it is, compare operators on its retrievals: evaluate it "
            "without post-retrieval, then ragbench ablate RUN"
        )


def _stage_fingerprints(
    rag: RAG, description: Mapping[str, Any], top_k: int | None
) -> dict[str, str]:
    """By stage of the RAG, the fingerprint under which its outcomes are kept and used again.

    A fingerprint changes with whatever may change the outcomes. To change what goes into it makes
    all stored outcomes unusable. A stage that the RAG lacks has none.
    """
    # What one stage says of itself must not make the other one run again.
    # The description of a system by stage counts only for its own stage, below.
    common = {key: value for key, value in description.items() if key != "stages"}
    fingerprints: dict[str, str] = {}
    for stage, family in (("retrieve", "retrieval"), ("generate", "generation")):
        if family in rag.families:
            # None: the system does not say which part of it a stage depends on, so that all of it
            # counts.
            identity = rag.stage_identity(stage)
            if identity is None:
                identity = common
            stage_top_k: int | None = None
            if stage == "retrieve":
                stage_top_k = top_k
            # How many chunks are asked for changes retrievals, and no answer to given chunks.
            fingerprints[stage] = fingerprint((stage, identity, stage_top_k))
    return fingerprints
