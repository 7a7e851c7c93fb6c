"""Every metric by name, in a file, and out of a stored run; how metrics are written.

Other packages add metrics through entry points in the group ``ragbench.metrics``; each names a
function that `ragbench.metric` made a metric, a `MetricDefinition` of a judged one, or a sequence
of these::

    [project.entry-points."ragbench.metrics"]
    mine = "my_package.metrics:token_f1"
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn, TypeAlias, cast

from ragbench.core.metric import (
    RUBRIC,
    Metric,
    MetricDefinition,
    Parameter,
    ParameterValue,
)
from ragbench.errors import ConfigError
from ragbench.io.settings import converted
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.identity import compiled, described
from ragbench.metrics.matching import COMPARING
from ragbench.metrics.metric import definition_of, definitions_in
from ragbench.plugins import Registry, is_own, load_attribute, load_target
from ragbench.text.declining import RULES

MetricLike: TypeAlias = Metric | str | Callable[..., Any]
"""A metric, its spelling, a function that `ragbench.metric` made one, or a `functools.partial` of
that with its parameters and cutoff."""

_FAMILIES = (
    "ragbench.metrics.rank",
    "ragbench.metrics.correct",
    "ragbench.metrics.answer",
    "ragbench.metrics.expectations",
    "ragbench.metrics.citations",
    "ragbench.metrics.candidates",
    "ragbench.metrics.operational",
    "ragbench.metrics.hops",
    "ragbench.metrics.ragas",
    "ragbench.metrics.support",
    "ragbench.metrics.correctness",
)
"""Modules of ragbench's own metrics; one is imported when a name is looked for in it."""

DEFAULT = (
    "answer_correct",
    "recall@5",
    "precision@5",
    "hit_rate@5",
    "MRR@10",
    "nDCG@10",
    "Judged@10",
    "exact_match",
    "token_f1",
    "numbers_supported",
    "citation_validity",
    "citation_coverage",
    "citation_attribution",
    "best_of_n",
    "candidate_agreement",
    "brier",
    "ECE",
    "end_to_end_f1",
    "abstention_accuracy",
    "answer_rate",
    "abstention_recall",
)
"""The names of what a run measures when nothing else is asked for."""


_NO_RUBRICS: Mapping[str, str] = MappingProxyType({})


@cache
def _family_definitions(name: str) -> Sequence[MetricDefinition]:
    """The definitions of the metrics in a module of ragbench's own, which is imported for it.

    A module makes them in a function ``definitions``, lists them as ``DEFINITIONS``, or has
    functions with ``@metric``.

    Args:
        name: of the module.
    """
    module = vars(import_module(name))
    if "definitions" in module:
        return cast("Sequence[MetricDefinition]", module["definitions"]())
    return module.get("DEFINITIONS") or tuple(definitions_in(module))


def definitions() -> tuple[MetricDefinition, ...]:
    """The definitions of all metrics: ragbench's own by family, then those of other packages.

    Other packages name theirs by entry points in the group ``ragbench.metrics``. The order is that
    of lists and of the documentation.
    """
    definitions: list[MetricDefinition] = []
    for family in _FAMILIES:
        definitions += _family_definitions(family)
    for name, target in Registry(kind="metrics").targets().items():
        attribute = load_attribute(target)
        # An entry point may give one metric or several.
        metric_objects: Sequence[object] = (attribute,)
        if isinstance(attribute, Sequence):
            metric_objects = cast("Sequence[object]", attribute)
        for metric_object in metric_objects:
            definition = _definition_in(metric_object)
            if definition is None:
                raise ConfigError(
                    f"the entry point '{name}' of ragbench.metrics gives a "
                    f"{type(metric_object).__name__}, not a function with @metric"
                )
            # Code of other packages may change without a new version: its digest shows that.
            definitions.append(_with_formula_digest(definition))
    return tuple(definitions)


def _definition_in(metric_object: object) -> MetricDefinition | None:
    """The definition that an object is, or that ``@metric`` left on it; None where it has none.

    What another package or a user's file offers may be either.
    """
    if isinstance(metric_object, MetricDefinition):
        return metric_object
    return definition_of(metric_object)


def find_definition(name: str) -> MetricDefinition:
    """The definition of a metric by its name, an alias or the place of its function.

    Names are matched without regard to case, and ragbench's own win. A place is
    ``file.py:function`` or ``package.module:function``.

    Raises:
        ConfigError: no metric has the name, or nothing is at the place.
    """
    spelling = name.casefold()
    for family in _FAMILIES:
        definition = _family_by_spelling(family).get(spelling)
        if definition is not None:
            return definition
    if name.endswith(".py"):
        raise ConfigError(f"'{name}' is a file: name a function in it, as in {name}:my_metric")
    if ".py:" in name:
        return _definition_at(name)
    # Only now: looking for entry points reads the metadata of every installed package.
    index = _by_spelling(definitions())
    if spelling in index:
        return index[spelling]
    # "ragas:" begins the names of metrics; what is before another colon is a module.
    prefixes: set[str] = set()
    for known_spelling in index:
        prefix, colon, _ = known_spelling.partition(":")
        if colon:
            prefixes.add(prefix)
    prefix, colon, _ = spelling.partition(":")
    if colon and prefix not in prefixes:
        return _definition_at(name)
    raise _unknown_metric(name, index)


def _unknown_metric(name: str, index: Mapping[str, MetricDefinition]) -> ConfigError:
    """The error of a name that no metric has, with the names that it may be a slip of.

    Names are compared as they are looked up, without regard to case.

    Args:
        index: the known definitions by every spelling in small letters.
    """
    similar_names: dict[str, None] = {}  # two aliases may belong to one metric
    for spelling in get_close_matches(name.casefold(), index, n=3):
        similar_names[index[spelling].name] = None
    hint = ""
    if similar_names:
        hint = f"Did you mean {' or '.join(similar_names)}? "
    return ConfigError(f"unknown metric '{name}'. {hint}'ragbench show metrics' lists all")


def parse_metric(given: MetricLike, *, rubrics: Mapping[str, str] = _NO_RUBRICS) -> Metric:
    """Reads one metric, such as ``"nDCG@10"``, ``"P(rel=2)@5"`` or ``"my.py:recall(rel=2)@5"``.

    Commands, files and Python name metrics in this form; an unknown name is an error that says
    which known one is near.

    Args:
        rubrics: criteria in words, by name, for metrics called ``rubric:NAME``.
    """
    if isinstance(given, Metric):
        return given
    if isinstance(given, str) and given.startswith(RUBRIC):
        from ragbench.metrics.rubric import parse_rubric  # late: few runs have a rubric

        return parse_rubric(given, rubrics)
    if isinstance(given, str):
        name, texts, cutoff = read_spelling(given)
        definition = find_definition(name)
        spelled = definition.name
        if ".py:" in name:
            spelled = name  # the function's name alone would not be found again
        return bound(definition, texts, cutoff, spelled=spelled)
    function = given
    values: dict[str, Any] = {}
    if isinstance(given, partial):
        function = given.func
        values = {**given.keywords}
        if given.args:
            raise ConfigError(f"{given}: parameters of a metric are given by their names")
    function_definition = definition_of(function)
    if function_definition is None or function_definition.formula is None:
        raise ConfigError(
            f"{getattr(function, '__name__', function)!r} is not a metric: write @metric above the "
            "function (from ragbench import metric)"
        )
    # A cutoff is a parameter of the function like any other, and is written behind an @.
    cutoff = values.pop(function_definition.formula.cutoff or "", None)
    return bound(_with_formula_digest(function_definition), values, cutoff)


def parse_metrics(
    metrics: str | Iterable[MetricLike], *, rubrics: Mapping[str, str] = _NO_RUBRICS
) -> tuple[Metric, ...]:
    """Reads a list of metrics, keeping its order and dropping repetitions.

    All mistakes of a list are reported at once.

    Args:
        metrics: a text with commas or spaces between them, or one text, function or metric each. A
            text that begins with + adds to the default ones.
        rubrics: criteria in words, by name, for metrics called ``rubric:NAME``.

    Raises:
        ConfigError: some are wrong; the message holds one line for each of those.
    """
    # Iterating is what raises for a number or None: the check covers both branches.
    try:
        items: list[MetricLike]
        if isinstance(metrics, str):
            items = [*split_metrics(metrics.removeprefix("+"))]
        else:
            items = [*metrics]
    except TypeError as error:
        raise ConfigError(f"metrics are a text or a list: {error}") from None
    # The default ones first: of two equal metrics the first one keeps its place.
    if isinstance(metrics, str) and metrics.startswith("+"):
        items = [*default_metrics(), *items]
    parsed: dict[str, Metric] = {}
    problems: list[str] = []
    for item in items:
        try:
            metric = parse_metric(item, rubrics=rubrics)
            earlier_metric = parsed.setdefault(metric.name, metric)
            # The same name with other parameters or another function: one column cannot show both.
            if earlier_metric.identity != metric.identity:
                _refuse_same_name(earlier_metric, metric)
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    return tuple(parsed.values())


def _refuse_same_name(earlier_metric: Metric, metric: Metric) -> NoReturn:
    """Raises the error of two metrics with one name: a report would show one of them alone.

    Scores are stored and shown by the name alone.

    Args:
        earlier_metric: the one that was named first.
    """
    name = metric.name
    # A rubric has no scorer of its own, and no `@metric` to rename it in.
    if name.startswith(RUBRIC):
        raise ConfigError(f"two rubrics are called '{name}': give one another name")
    places = f"{earlier_metric.definition.scorer} and {metric.definition.scorer}"
    raise ConfigError(
        f"two metrics are called '{name}', {places}: give yours another name, with "
        "@metric(name=...)"
    )


@cache
def default_metrics(
    *, has_hops: bool = False, has_expectations: bool = False
) -> tuple[Metric, ...]:
    """The metrics of a run when the user names none: free of charge, and without an extra package.

    Each skips the cases that lack what it needs, so that one list serves every dataset.

    Args:
        has_hops: whether answers are known to rest on several searches.
        has_expectations: whether cases say what an answer has to contain.
    """
    names = [*DEFAULT]
    if has_expectations:
        # Expectations are what the author of a case demands: in the second place, before metrics of
        # the answer's words.
        names.insert(1, "expectations")
    if has_hops:
        # Imported only here: most runs have no hops.
        from ragbench.metrics.hops import HOP_METRICS

        names += split_metrics(HOP_METRICS)
    return parse_metrics(names)


def computable(metric: Metric) -> Metric:
    """A metric that was read from a run, with the function that computes it today.

    A run's folder stores metrics without their functions. A user's own is loaded from its file,
    unless that file came with the run: a run may come from anywhere, and is never executed.

    Raises:
        ConfigError: there is no such metric here.
    """
    definition = metric.definition
    # A metric of this process has its function already.
    if definition.formula is not None:
        return metric
    module = definition.scorer.rpartition(":")[0]
    try:
        # Only metrics of users have a digest of their code; ragbench's own are found by name.
        if not definition.digest:
            current_definition = find_definition(definition.name)
        else:
            # A run may come from anywhere, and what lies in it is not to be executed.
            if module.endswith(".py") and _is_in_run(Path(module)):
                raise ConfigError(f"{module} lies in the folder of a run")
            current_definition = _definition_at(definition.scorer)
        # With the stored parameters: they are part of the metric's name.
        return bound(current_definition, dict(metric.parameters), metric.cutoff)
    except ConfigError as error:
        raise ConfigError(f"'{metric.name}' cannot be computed here: {error}") from None


def _is_in_run(file: Path) -> bool:
    """Whether a file lies somewhere in a run's folder, which may come from a stranger.

    Code from there is never executed.
    """
    return any(RunFolder(path=folder).exists for folder in file.parents)


@cache
def _family_by_spelling(family: str) -> dict[str, MetricDefinition]:
    """The definitions of one of ragbench's own modules by every name that they go by.

    Kept, so that most names are found without importing the other modules.

    Args:
        family: the module.
    """
    return _by_spelling(_family_definitions(family))


def _by_spelling(definitions: Sequence[MetricDefinition]) -> dict[str, MetricDefinition]:
    """Definitions by every name that they go by, in small letters; a name comes before an alias.

    Users write names in any case, and may know a metric by the name that another tool gives it.

    Args:
        definitions: of which the first with a spelling has it.
    """
    index: dict[str, MetricDefinition] = {}
    # All names before all aliases, so that no alias takes a name of another metric.
    for definition in definitions:
        index.setdefault(definition.name.casefold(), definition)
    for definition in definitions:
        for alias in definition.aliases:
            index.setdefault(alias.casefold(), definition)
    return index


def _definition_at(place: str) -> MetricDefinition:
    """The definition of a metric of a user's, from its place: ``file.py:function``.

    Its scorer becomes that place as it is written, without the folder, so that a run that is stored
    here compares on another machine.
    """
    # An error about a wrong attribute offers only functions with @metric.
    target = load_target(place, offers=lambda value: definition_of(value) is not None)
    definition = _definition_in(target)
    if definition is None:
        raise ConfigError(
            f"'{place}' is a {type(target).__name__}, not a metric: write @metric above the "
            "function (from ragbench import metric)"
        )
    module, _, attribute = place.rpartition(":")
    if module.endswith(".py") and Path(module).is_absolute():
        # Without the path to the working directory, which is another one on another machine.
        path = Path(module)
        working_directory = Path.cwd()
        file = path.name
        if path.is_relative_to(working_directory):
            file = path.relative_to(working_directory).as_posix()
        place = f"{file}:{attribute}"
    return replace(_with_formula_digest(definition), scorer=place)


def _with_formula_digest(definition: MetricDefinition) -> MetricDefinition:
    """A user's definition with a digest of its formula's source; one of ragbench's own as it is.

    By the digest stored scores are known to be those of an older version of the file. Ragbench's
    own metrics have a version number for that. Another way to make the digest would make all stored
    scores of users' metrics incomparable.
    """
    formula = definition.formula
    if formula is None or is_own(str(formula.function.__module__)):
        return definition
    digest = _formula_digest(formula.function)
    # The formula is given what ragbench reads by rules of its own, which have versions.
    if definition.abstains or "declined" in formula.arguments:
        digest = fingerprint((digest, RULES))[:16]
    if "ranking" in formula.arguments:
        digest = fingerprint((digest, COMPARING))[:16]
    return replace(definition, digest=digest)


@cache
def _formula_digest(function: Callable[..., Any]) -> str:
    """The digest of a metric's function and of the project's files that it imports, by their code.

    Taken once, right after the function was loaded: the code that runs is the code that counts.
    """
    from ragbench.ledger.identity import imported_sources  # late: only metrics of users need it

    plain = inspect.unwrap(function)
    own = described(function)
    # A file has another name as a module where that name is taken.
    own.pop("function", None)
    return fingerprint((imported_sources(plain), compiled(plain.__code__), own))[:16]


# --- how metrics are written: ``recall@5``, ``P(rel=2)@5``, ``my.py:recall(rel=2)@5``
#
# The grammar is that of ir_measures (MacAvaney et al. 2022, "Streamlining Evaluation with
# ir-measures", ECIR), with quotes optional around plain words, and places of functions as names.

_QUOTED = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_METRIC = re.compile(
    rf"""\s*(?P<name>[^\W\d][\w.:-]*|[^\s()'",@=]+\.py:[\w.]+)
    \s*(?:\((?P<arguments>(?:[^()'"]|{_QUOTED})*)\))?
    \s*(?:@\s*(?P<cutoff>\d+))?\s*""",
    re.VERBOSE,
)
_ARGUMENT = re.compile(
    rf"""\s*(?P<key>[^\W\d]\w*)\s*=\s*(?P<value>{_QUOTED}|[^\s,'"=()]+)\s*(?:,|$)""", re.VERBOSE
)
_PART = re.compile(rf"""(?:\((?:[^()'"]|{_QUOTED})*\)|[^\s,])+""")


_RUBRIC = re.compile(rf"(?<![^\s,]){RUBRIC}[^\s,=]*=")


def split_metrics(text: str) -> list[str]:
    """Splits a list of metrics at commas and white space outside parentheses.

    A criterion, ``rubric:NAME=WORDS``, is the last of its list: its words may hold commas. Commas
    in parentheses belong to a metric: ``P(rel=2,judged_only=true)@5, MRR@10`` are two.
    """
    rubric = _RUBRIC.search(text)
    if rubric is None:
        return _PART.findall(text)
    start = rubric.start()
    # The criterion is one entry with all that follows, commas included.
    return [*_PART.findall(text[:start]), text[start:]]


def read_spelling(text: str) -> tuple[str, dict[str, str], int | None]:
    """A metric as it was written, in its parts: name, texts of its parameters, cutoff.

    ``nDCG(dcg=exp-log2)@10`` is ``nDCG``, ``{"dcg": "exp-log2"}``, 10. The name is a registered
    one, ``file.py:function`` or ``package.module:function``; whether it exists is not looked at.
    The form is documented: lists of metrics in users' files are written in it.
    """
    match = _METRIC.fullmatch(text)
    if match is None:
        raise ConfigError(f"'{text}' is not of the form name, name@k or name(parameter=value)@k")
    # Blanks behind the last parameter would be taken for one more.
    arguments_text = (match["arguments"] or "").rstrip()
    arguments: dict[str, str] = {}
    position = 0
    # Each part is matched where the last one ended: a gap is a mistake, not skipped.
    while position < len(arguments_text):
        part = _ARGUMENT.match(arguments_text, position)
        if part is None:
            problem = arguments_text[position:].strip()
            raise ConfigError(f"'{text}': '{problem}' is not parameter=value")
        if part["key"] in arguments:
            raise ConfigError(f"'{text}' is given the parameter '{part['key']}' twice")
        arguments[part["key"]] = _unquoted(text, part["value"])
        position = part.end()
    cutoff: int | None = None
    if match["cutoff"] is not None:
        cutoff = int(match["cutoff"])
    return match["name"], arguments, cutoff


def _unquoted(text: str, value: str) -> str:
    """The value of a metric's parameter without its quotes; within double ones escapes are JSON's.

    Quotes are needed around a value with a comma, a blank or a parenthesis.

    Args:
        text: the whole metric, for the message.
    """
    if value.startswith("'"):
        # In single quotes nothing is escaped: file paths of Windows are written so.
        return value[1:-1]
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError as error:
            raise ConfigError(f"'{text}': {value} is not a valid quoted text: {error}") from error
    return value


def bound(
    definition: MetricDefinition,
    values: Mapping[str, object],
    cutoff: int | None,
    *,
    spelled: str = "",
) -> Metric:
    """A metric with values for its parameters.

    Those that are the default are left out, so that both ways to write it are the same metric.
    `Metric.name` is made of the result, and names scores in stored runs.

    Args:
        spelled: how the user wrote the metric's name, for a message; the definition's when empty.

    Raises:
        ConfigError: there is no such parameter, a value or the cutoff is wrong, or none is given
            where one is needed.
    """
    # Refusals come in the order in which a user reads the metric: parameters, then the cutoff.
    parameters = {parameter.name: parameter for parameter in definition.parameters}
    changed: list[tuple[str, ParameterValue]] = []
    for name, raw_value in values.items():
        if name not in parameters:
            existing = "it has none"
            if parameters:
                existing = f"it has {', '.join(parameters)}"
            raise ConfigError(f"'{definition.name}' has no parameter '{name}': {existing}")
        value = _parameter_value(definition.name, parameters[name], raw_value)
        # Compared after conversion: "2" as a text would never equal the default 2.
        if value != parameters[name].default:
            changed.append((name, value))
    if cutoff is None and definition.cutoff == "required":
        spelled = spelled or definition.name
        raise ConfigError(f"'{spelled}' needs a cutoff, as in {spelled}@10")
    if cutoff is not None and definition.cutoff == "none":
        raise ConfigError(f"'{definition.name}' takes no cutoff (@{cutoff})")
    if cutoff is not None and cutoff < 1:
        raise ConfigError(f"the cutoff of '{definition.name}' must be at least 1")
    return Metric(
        definition=definition,
        # By name, so that the order in which a user wrote them does not make another metric.
        parameters=tuple(sorted(changed)),
        cutoff=cutoff,
    )


def _parameter_value(name: str, parameter: Parameter, given: object) -> ParameterValue:
    """The value of a metric's parameter in the type of its default, refused outside its range.

    So "2", 2 and the default 2 are one metric, with one name.

    Args:
        name: of the metric, for messages.
        given: a text as a user wrote it, or such a value.
    """
    # A choice is converted by its list, anything else by the type of its default.
    kind: Any = type(parameter.default)
    if parameter.choices:
        kind = Literal[parameter.choices]
    where = f"'{name}': {parameter.name}"
    # Not strict: values of a command line are texts.
    value: ParameterValue = converted(given, kind, where, strict=False)
    # `low` is the only bound: no parameter has an upper one.
    if isinstance(value, str) or parameter.low is None:
        return value
    if value < parameter.low:
        raise ConfigError(f"{where} must be at least {parameter.low:g}")
    return value
