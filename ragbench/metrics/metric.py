"""``@metric``: a function that is a metric, with its definition and its line of documentation.

::

    @metric(group="generator", abstains=True)
    def shared_words(response: str, reference: str, *, least: int = 1) -> float:
        \"\"\"Share of the reference's words that the answer has.\"\"\"
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from ragbench.core.metric import Direction, Formula, Group, MetricDefinition, Need, Parameter
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.metrics.matching import COMPARING
from ragbench.plugins import is_own
from ragbench.safe_text import did_you_mean
from ragbench.text.declining import RULES

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


_CONTEXTS = Need.RETRIEVED_CONTEXTS
ARGUMENTS: Mapping[str, tuple[Need, ...]] = {
    "query": (),
    "response": (Need.RESPONSE,),
    "multi_responses": (Need.MULTI_RESPONSES,),
    "confidence": (Need.CONFIDENCE,),
    "declined": (Need.RESPONSE,),
    "citations": (Need.RESPONSE, _CONTEXTS),
    "reference": (Need.REFERENCE,),
    "references": (Need.REFERENCE,),
    "answerable": (Need.ANSWERABLE,),
    "contexts": (_CONTEXTS,),
    "context_ids": (Need.RETRIEVED_CONTEXT_IDS,),
    "scores": (_CONTEXTS, Need.SCORES),
    "context_metadata": (_CONTEXTS, Need.CONTEXT_METADATA),
    "ranking": (_CONTEXTS, Need.JUDGEMENTS),
    "reference_contexts": (Need.REFERENCE_CONTEXTS,),
    "reference_context_ids": (Need.REFERENCE_CONTEXT_IDS,),
    "grades": (Need.GRADES,),
    "evidence": (Need.EVIDENCE,),
    "retrieval_seconds": (Need.RETRIEVAL_LATENCY,),
    "tokens": (Need.TOKENS,),
    "generation_seconds": (Need.GENERATION_LATENCY,),
    "retrieval": (_CONTEXTS,),
    "generation": (Need.RESPONSE,),
    "case": (),
    "trace": (Need.TRACE,),
    "expectations": (Need.EXPECTATIONS,),
}
"""By name: what a case needs to have for a positional parameter of that name. What each is given is
in docs/your_own_metric.md; `ragbench.metrics.plan` reads it."""


class AtLeast(Record, kw_only=False):
    """The smallest value of a parameter: ``rel: Annotated[int, AtLeast(1), "what it is"] = 1``.

    The text explains the parameter, in the place of a line under ``Args:``.
    """

    value: float


class MetricOptions(TypedDict, total=False):
    """The properties of a metric besides its function, each of them optional."""

    name: str
    """How it is written and shown; the function's name when not given."""
    summary: str
    """What it measures, in a line; the first one of the docstring when not given."""
    group: Literal["retriever", "generator", "overall"]
    """Which part of a RAG it speaks about. When not given, the generator where it reads the answer,
    else the retriever where it reads the contexts."""
    direction: Literal["higher", "lower", "neither"]
    """Which way is better; higher when not given."""
    low: float | None
    """Smallest value that it can take; 0 when not given, None for no end."""
    high: float | None
    """Largest value that it can take; 1 when not given, None for no end."""
    unit: str
    """Unit of the value, such as ``"s"``."""
    probability: bool
    """Whether each value is the probability of an unseen outcome of 0 or 1: the interval of the
    mean is then that of so many outcomes."""
    cutoff: str
    """The keyword-only parameter that is k of ``@k``. Where it has a default, ``@k`` may be left
    out."""
    abstains: bool
    """Whether a declined answer counts as abstained, instead of being scored."""
    batch: bool
    """Whether the function is called with a list for each argument, of many cases at once, and
    returns a list: numbers, None, `Skip` or, for a case that failed, the exception."""
    aggregate: Callable[..., float]
    """Makes the run's figure of the measured values, where that is not their mean. It may take
    parameters of the metric as keywords."""
    aliases: Sequence[str]
    """Other names."""
    deterministic: bool
    """False for measured times, which differ from run to run."""
    extra: str
    """The extra of ragbench that it needs."""
    prepare: Callable[[], object]
    """Called once before anything runs: loads what takes long, and raises what is missing."""
    cite: str
    """Where its formula comes from."""
    version: int
    """Raised when the same inputs give another value than before; 1 when not given."""


@overload
def metric(function: FunctionT, /) -> FunctionT: ...


@overload
def metric(**options: Unpack[MetricOptions]) -> Callable[[FunctionT], FunctionT]: ...


def metric(function: Any = None, /, **options: Unpack[MetricOptions]) -> Any:
    """Makes a function a metric; it can still be called as before.

    Its positional parameters say by their names what it is given of each case: see `ARGUMENTS`. A
    case that lacks one of them is skipped, and the function is not called. Its keyword-only
    parameters are the metric's own, which stand in parentheses behind its name; each has a default
    that is a text, a number or a truth value. The first line of its docstring is what ``ragbench
    show metrics`` prints, the lines under ``Args:`` explain the parameters.

    It returns a number between ``low`` and ``high``; None or `Skip` where it does not apply. What
    it raises fails the case, never the run.

    Args:
        function: the function, where the decorator is written without parentheses.
        **options: see `MetricOptions`.

    Raises:
        ConfigError: a parameter has a name that means nothing, or no default.
    """
    if function is None:  # @metric(...), with options
        return partial(_with_definition, options)
    return _with_definition(options, function)


def _with_definition(options: MetricOptions, function: FunctionT) -> FunctionT:
    """The same function with its definition as a metric, in the attribute ``__metric__``.

    `definition_of` reads that attribute. The function itself can still be called as before.

    Args:
        options: those of ``@metric``.

    Raises:
        ConfigError: the function or an option is none of a metric.
    """
    cast("Any", function).__metric__ = _Signature(function).definition(options)
    return function


def definition_of(thing: object) -> MetricDefinition | None:
    """The definition of a function that `metric` made one; None for anything else.

    A user's file is searched for metrics with it: any other object there is none.
    """
    definition = getattr(thing, "__metric__", None)
    return definition if isinstance(definition, MetricDefinition) else None


def definitions_in(module: Mapping[str, Any]) -> tuple[MetricDefinition, ...]:
    """The metrics that a module defines, in their order there.

    Metrics that it only imports are left out: each metric belongs to the module that defines it.

    Args:
        module: its names and values, as of `vars`.
    """
    definitions: list[MetricDefinition] = []
    for value in module.values():
        if getattr(value, "__module__", None) != module["__name__"]:
            continue  # imported from another module
        definition = definition_of(value)
        if definition is not None:
            definitions.append(definition)
    return tuple(definitions)


_GENERATOR = frozenset({Need.RESPONSE, Need.MULTI_RESPONSES, Need.CONFIDENCE})
_RETRIEVER = frozenset({Need.RETRIEVED_CONTEXTS, Need.RETRIEVED_CONTEXT_IDS})
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class _Signature:
    """A function as it is written: what it reads of a case, its own parameters, its docstring."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Reads a function's parameters and docstring, and refuses what cannot be a metric.

        Positional parameters name what it reads of a case, keyword-only ones are the metric's own;
        a text under ``Args:`` explains each of these.

        Raises:
            ConfigError: the function takes ``*args`` or ``**kwargs``, is a coroutine, or is no
                function.
        """
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        # The name is set before: the message of `refuse` begins with it.
        if not inspect.isfunction(function):
            self.refuse("is not a function")
        if inspect.iscoroutinefunction(function):
            self.refuse("is a coroutine function: a metric is a plain one")
        # Parameters by kind, in order: positional ones take parts of a case, keyword-only ones are
        # settings.
        self.positional: list[inspect.Parameter] = []
        self.keywords: list[inspect.Parameter] = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                self.refuse(f"takes '{parameter}': name what it reads, one parameter each")
            if parameter.kind in _POSITIONAL:
                self.positional.append(parameter)
            else:
                self.keywords.append(parameter)
        # The first paragraph is the summary in lists; a period would break the table's style.
        text = inspect.getdoc(function) or ""
        self.summary = " ".join(text.partition("\n\n")[0].split()).removesuffix(".")
        # By parameter the text under ``Args:``; an annotation may have another.
        self.explained: dict[str, str] = {}
        section = _ARGS.search(text)
        if section is not None:
            for entry in _ENTRY.finditer(section[1]):
                explanation = " ".join(entry[2].split())
                self.explained[entry[1]] = explanation.removesuffix(".")

    def refuse(self, problem: str) -> NoReturn:
        """Raises the error of a function that is no metric, with its file and line for the user.

        A metric is refused when its file is loaded, and not in the middle of a run.

        Args:
            problem: the end of a sentence that begins with the metric's name.
        """
        place = ""
        # What is no function has no place, and the message begins with the name.
        code = getattr(self.function, "__code__", None)
        if code is not None:
            place = f"{Path(code.co_filename).name}:{code.co_firstlineno}: "
        raise ConfigError(f"{place}the metric '{self.name}' {problem}")

    def definition(self, options: MetricOptions) -> MetricDefinition:
        """The definition of the metric, from the function's signature and its ``@metric`` options.

        The definition is all that reports, lists and stored runs know of a metric.

        Raises:
            ConfigError: the function or an option is none of a metric.
        """
        arguments = self._arguments()
        needs = frozenset[Need]().union(*(ARGUMENTS[argument] for argument in arguments))
        cutoff = options.get("cutoff")
        aggregate = options.get("aggregate")
        facts = {name: value for name, value in options.items() if name in _FACTS}
        unknown = options.keys() - MetricOptions.__annotations__.keys()
        if unknown:
            self.refuse(
                f"has the option {_unknown_name(min(unknown), MetricOptions.__annotations__)}"
            )
        bounds = (options.get("low", 0), options.get("high", 1))
        if options.get("probability") and bounds != (0, 1):
            self.refuse("is a probability: its values go from 0 to 1, so leave out low and high")
        if not _NAME.fullmatch(options.get("name", self.name)):
            self.refuse("needs a name of letters, digits, '_', '-', '.' and ':': give name=...")
        rules = self._rules(arguments, abstains=options.get("abstains", False))
        group: str | None = options.get("group")
        if group is None:
            group = _group_by_needs(needs)
        aggregate_place: str | None = None
        if aggregate is not None:
            aggregate_place = _import_place(aggregate)
        return MetricDefinition(
            # `facts` overrides name and summary where the options give them, as it comes last.
            **cast("dict[str, Any]", {"name": self.name, "summary": self.summary, **facts}),
            version=options.get("version", 1) + rules,
            group=self._one_of(Group, "group", group),
            needs=needs,
            direction=self._one_of(Direction, "direction", options.get("direction", "higher")),
            citation=options.get("cite", ""),
            scorer=_import_place(self.function),
            aliases=tuple(options.get("aliases", ())),
            parameters=tuple(self._parameters(cutoff)),
            cutoff=self._cutoff(cutoff),
            aggregate=aggregate_place,
            formula=Formula(
                function=self.function,
                arguments=arguments,
                cutoff=cutoff,
                batch=options.get("batch", False),
                aggregate=aggregate,
                prepare=options.get("prepare"),
            ),
        )

    def _rules(self, arguments: Sequence[str], *, abstains: bool) -> int:
        """How much the rules that a metric of ragbench rests on add to the metric's version.

        What counts as declined, and how chunks are compared, changes values as the formula does. A
        user's own version stays as it is written: the digest of its formula has the rules.
        """
        if not is_own(str(self.function.__module__)):
            return 0
        declining = RULES - 1 if abstains or "declined" in arguments else 0
        comparing = COMPARING - 1 if "ranking" in arguments else 0
        return declining + comparing

    def _one_of(self, kind: type[EnumT], option: str, value: str) -> EnumT:
        """The member of an enumeration that an option names; other texts are refused.

        So a slip in an option is an error that lists what may be written.

        Args:
            kind: the enumeration.
            option: its name in ``@metric``, for the message.
        """
        try:
            return kind(value)
        except ValueError:
            self.refuse(f"has the {option} {value!r}: it is one of {', '.join(kind)}")

    def _arguments(self) -> tuple[str, ...]:
        """The names of the function's positional parameters, each a key of `ARGUMENTS`.

        They say which parts of a case the function reads. A misspelled name is refused when the
        module is loaded, and not when the first case is scored.
        """
        for parameter in self.positional:
            name = parameter.name
            if name not in ARGUMENTS:
                unknown = _unknown_name(name, ARGUMENTS)
                self.refuse(
                    f"reads {unknown}. A parameter of its own comes after a '*' and has a default"
                )
            if parameter.default is not parameter.empty:
                self.refuse(
                    f"has a default for '{name}', and a case that lacks it is skipped. A "
                    "parameter of its own stands behind a '*'"
                )
        if not self.positional:
            self.refuse(f"reads nothing of a case. Known: {', '.join(ARGUMENTS)}")
        return tuple(parameter.name for parameter in self.positional)

    def _parameters(self, cutoff: str | None) -> Iterator[Parameter]:
        """The metric's own parameters: its keyword-only ones but the cutoff, each with its default.

        They may be set in a list of metrics, ``name(parameter=value)``. Type, choices, smallest
        value and explanation come from the annotation, or from the docstring's ``Args:``.
        """
        try:
            hints = get_type_hints(self.function, include_extras=True)
        # Annotations may name what only type checkers import.
        except (NameError, TypeError, AttributeError):
            hints = {}
        for keyword in self.keywords:
            if keyword.name == cutoff:
                continue
            hint = hints.get(keyword.name)
            low: float | None = None
            summary = self.explained.get(keyword.name, "")
            if get_origin(hint) is Annotated:
                hint, *extras = get_args(hint)
                low = next((extra.value for extra in extras if isinstance(extra, AtLeast)), None)
                summary = next((extra for extra in extras if isinstance(extra, str)), summary)
            default = keyword.default
            if not isinstance(default, (str, int, float)):
                self.refuse(
                    f"has the parameter '{keyword.name}' without a default that is a text, a "
                    "number or a truth value"
                )
            if hint is float:
                default = float(default)
            choices: tuple[Any, ...] = ()
            if get_origin(hint) is Literal:
                choices = get_args(hint)
            yield Parameter(
                name=keyword.name,
                default=default,
                summary=summary,
                choices=choices,
                low=low,
            )

    def _cutoff(self, cutoff: str | None) -> Literal["required", "optional", "none"]:
        """Whether ``@k`` must, may or may not be behind the metric's name in a list of metrics.

        A parameter without a default must be given, as k of ``recall@k``.

        Args:
            cutoff: the keyword-only parameter that is k; None where there is none.
        """
        if cutoff is None:
            return "none"
        # By name: the author names k among the keyword-only parameters.
        for keyword in self.keywords:
            if keyword.name == cutoff:
                return "required" if keyword.default is keyword.empty else "optional"
        self.refuse(f"has cutoff={cutoff!r}, and no keyword-only parameter of that name")


EnumT = TypeVar("EnumT", bound=StrEnum)
_NAME = re.compile(r"[^\W\d][\w.:-]*")
_FACTS = frozenset(
    {"name", "summary", "low", "high", "unit", "abstains", "probability", "deterministic", "extra"}
)
"""Options that are fields of the definition."""


def _group_by_needs(needs: frozenset[Need]) -> str:
    """The part of a RAG that a metric speaks about, where its ``@metric`` names none.

    A metric that reads an answer is the generator's, even if it reads contexts, too.

    Args:
        needs: what the function's parameters read of a case.
    """
    # Answers before chunks: a metric of both is about what generation made of them.
    if needs & _GENERATOR:
        return "generator"
    if needs & _RETRIEVER:
        return "retriever"
    return "overall"


def _unknown_name(name: str, choices: Iterable[str]) -> str:
    """The end of an error about an unknown name, with the nearest known one and all of them.

    A misspelled parameter or option of a user's metric is named so.

    Args:
        choices: the known names.
    """
    hint = did_you_mean(name, choices)
    return f"'{name}', which does not exist.{hint} Known: {', '.join(choices)}"


def _import_place(function: Callable[..., Any]) -> str:
    """Where a function can be imported from: ``module:name``.

    Stored with each run, and shown where two metrics have one name.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}:{name}"


# The section of a docstring that explains parameters, and one entry of it.
_ARGS = re.compile(r"^Args:\n((?:(?: .*)?\n?)*)", re.MULTILINE)
_ENTRY = re.compile(r" {2,4}(\w+)(?: \(.*?\))?: (.*(?:\n {6,}.*)*)")
