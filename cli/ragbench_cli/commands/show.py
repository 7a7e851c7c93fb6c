"""``ragbench show``: what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, complete_metrics, subcommands
from ragbench_cli.output import entry, show

if TYPE_CHECKING:
    from ragbench.core.metric import MetricDefinition, Parameter
    from ragbench.plugins import Registry

app = subcommands("List metrics, formats, rerankers and what else can be named.")


def _print(value: object, lines: Iterable[str], *, json: bool) -> None:
    show(value, lambda: typer.echo("\n".join(lines)), json=json)


def _entries(listed: Iterable[tuple[str, str]], *, width: int = 24) -> Iterator[str]:
    yield from (entry(name, text, width=width) for name, text in listed)


@app.command("metrics")
def metrics(json: JsonOption = False) -> None:
    """List the metrics.

    A name is written with a cutoff if it has @k, and with parameters in parentheses where it
    has some: recall@5, nDCG@10, recall(rel=2)@5, rouge(variant=rouge1).

    \b
    Examples:
      ragbench show metrics
      ragbench show metrics --json
    """
    from ragbench.metrics.registry import definitions

    known = definitions()

    def lines() -> Iterator[str]:
        for group in dict.fromkeys(definition.group for definition in known):
            yield group.value
            yield from _entries((_spelling(o), _summary(o)) for o in known if o.group is group)

    _print([_metric(definition) for definition in known], lines(), json=json)


@app.command("metric")
def metric(
    name: Annotated[
        str,
        argument(
            metavar="NAME",
            help="A metric, such as nDCG, nDCG@10 or my.py:function.",
            complete=complete_metrics,
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Explain one metric.

    \b
    Example:
      ragbench show metric nDCG
    """
    from ragbench.metrics.registry import find_definition, read_spelling

    with console.users_code():
        definition = find_definition(read_spelling(name)[0])
    title = f"{_spelling(definition)}: {definition.summary}"
    _print(_metric(definition), (title, *_entries(_facts(definition))), json=json)


def _spelling(definition: MetricDefinition) -> str:
    return definition.name + {"required": "@k", "optional": "[@k]", "none": ""}[definition.cutoff]


def _summary(definition: MetricDefinition) -> str:
    """What it measures, which way is better unless up, its parameters, the extra that it needs."""
    from ragbench.core.metric import Direction

    notes: list[str] = []
    if definition.direction is not Direction.HIGHER:
        notes.append(_better(definition))
    notes.extend(_default(item) for item in definition.parameters)
    if definition.extra:
        notes.append(f"extra {definition.extra}")
    return f"{definition.summary} [{', '.join(notes)}]" if notes else definition.summary


def _better(definition: MetricDefinition) -> str:
    way = definition.direction.value
    return "neither way is better" if way == "neither" else f"{way} is better"


def _default(parameter: Parameter) -> str:
    return f"{parameter.name}={_value(parameter.default)}"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _range(definition: MetricDefinition) -> str:
    low, high = definition.low, definition.high
    if low is None:
        return "any number" if high is None else f"{high:g} or less"
    return f"{low:g} or more" if high is None else f"{low:g} to {high:g}"


def _facts(definition: MetricDefinition) -> list[tuple[str, str]]:
    unit = f" {definition.unit}" if definition.unit else ""
    facts = [
        ("group", definition.group.value),
        ("range", f"{_range(definition)}{unit}, {_better(definition)}"),
        ("reads", ", ".join(sorted(need.value for need in definition.needs)) or "nothing"),
    ]
    if definition.abstains:
        facts.append(("declined", "a declined answer gives no score: it counts as abstained"))
    if definition.calls:
        facts.append(("costs", f"{definition.calls} (calls per case; K is the number of contexts)"))
    for item in definition.parameters:
        choices = f" One of {', '.join(map(_value, item.choices))}." if item.choices else ""
        facts.append((_default(item), f"{item.summary.rstrip('.')}.{choices}"))
    if definition.aliases:
        facts.append(("also", ", ".join(definition.aliases)))
    if definition.extra:
        facts.append(("needs", f"pip install 'ragbench[{definition.extra}]'"))
    return [*facts, ("source", definition.citation or definition.scorer)]


_SHOWN = (
    *("name", "aliases", "group", "direction", "low", "high", "unit", "cutoff", "parameters"),
    *("abstains", "deterministic", "cost", "calls", "extra", "version", "summary", "citation"),
)


def _metric(definition: MetricDefinition) -> dict[str, Any]:
    known = {name: getattr(definition, name) for name in _SHOWN}
    return {**known, "needs": sorted(definition.needs)}


@app.command("formats")
def formats(json: JsonOption = False) -> None:
    """List the formats of datasets and recorded answers.

    \b
    Example:
      ragbench show formats
    """
    from ragbench.io.detect import formats as known_formats

    def lines() -> Iterator[tuple[str, str]]:
        for known in known_formats().values():
            extra = f" [extra {known.extra}]" if known.extra else ""
            reads = " and ".join(known.reads).capitalize()
            recorded = f" Recorded: {known.records}." if known.records else ""
            yield known.name, f"{known.summary} {reads}.{recorded}{extra}"
            yield "", f"for example {known.example}"

    _print([*known_formats().values()], _entries(lines(), width=14), json=json)


@app.command("dumps")
def dumps(json: JsonOption = False) -> None:
    """List the forms of retrieval dumps that ragbench validate reads.

    \b
    Example:
      ragbench show dumps
    """
    from ragbench.io.dumps.forms import RANKED, forms

    known = [(form.name, form.summary, form.example) for form in forms().values()]
    known += [(name, *texts) for name, texts in RANKED.items()]
    lines = (line for n, s, e in known for line in ((n, s), ("", f"such as {e}")))
    data = [{"name": n, "summary": s, "example": e} for n, s, e in known]
    _print(data, _entries(lines, width=14), json=json)


@app.command("exports")
def exports(json: JsonOption = False) -> None:
    """List the formats that a run is exported to.

    \b
    Example:
      ragbench show exports
    """
    from ragbench.io.export import EXPORTS
    from ragbench.io.settings import summary_of

    known = {name: _unmarked(summary_of(EXPORTS.load(name))) for name in EXPORTS.targets()}
    data = [{"name": name, "summary": summary} for name, summary in known.items()]
    _print(data, _entries(known.items(), width=10), json=json)


@app.command("pipeline")
def pipeline(json: JsonOption = False) -> None:
    """List the stages of a pipeline file and their settings.

    With --json it is the JSON schema for editors.

    \b
    Examples:
      ragbench show pipeline
      ragbench show pipeline --json > pipeline.schema.json
    """
    from ragbench.search.pipeline.pre_retrieval import QUERY_TRANSFORMS
    from ragbench.search.pipeline.schema import pipeline_schema
    from ragbench.search.pipeline.stages import GENERATIONS, ORCHESTRATIONS, RETRIEVALS

    schema = pipeline_schema()
    sections = {
        "pre_retrieval": QUERY_TRANSFORMS,
        "retrieval": RETRIEVALS,
        "generation": GENERATIONS,
        "orchestration": ORCHESTRATIONS,
    }

    def lines() -> Iterator[str]:
        yield "indexing"
        settings = schema["properties"]["indexing"]["properties"]
        yield from _entries((n, _unmarked(s.get("description", ""))) for n, s in settings.items())
        for section, registry in sections.items():
            yield f"{section} (type)"
            yield from _entries((name, _stage(registry.load(name))) for name in registry.targets())
        yield "post_retrieval: see docs/post_retrieval.md"

    _print(schema, lines(), json=json)


def _stage(target: object) -> str:
    """What an implementation of a stage does, and its settings with their defaults."""
    from ragbench.io.settings import schema_of_settings, summary_of

    properties = schema_of_settings(target).get("properties", {})
    named = [
        f"{name}={_value(schema['default'])}" if "default" in schema else name
        for name, schema in properties.items()
    ]
    settings = f" [{', '.join(named)}]" if named else ""
    return f"{_unmarked(summary_of(target))}{settings}"


def _unmarked(text: str) -> str:
    return text.replace("`", "")


def _operator_names(typed: str) -> list[str]:
    return [name for name in _post_retrieval() if name.startswith(typed)]


def _post_retrieval() -> dict[str, Registry]:
    from ragbench.post.build import OPERATORS, RERANKERS

    found = {name: OPERATORS for name in OPERATORS.targets()}
    return found | {f"rerank.{name}": RERANKERS for name in RERANKERS.targets()}


@app.command("operators")
def operators(json: JsonOption = False) -> None:
    """List the operators of post-retrieval. show operator NAME has their settings.

    \b
    Examples:
      ragbench show operators
      ragbench show operators --json
    """
    from ragbench.post.build import OPERATORS

    _show_listed(OPERATORS, json=json)


@app.command("rerankers")
def rerankers(json: JsonOption = False) -> None:
    """List the rerankers. show operator rerank.NAME has their settings.

    \b
    Examples:
      ragbench show rerankers
      ragbench show rerankers --json
    """
    from ragbench.post.build import RERANKERS

    _show_listed(RERANKERS, json=json)


@app.command("operator")
def operator(
    name: Annotated[
        str,
        argument(
            metavar="NAME",
            help="An operator or a reranker, such as filter.top_k or rerank.lexical.",
            complete=_operator_names,
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Explain an operator or a reranker, with its settings.

    \b
    Examples:
      ragbench show operator filter.top_k
      ragbench show operator rerank.lexical
    """
    from ragbench.post.build import described
    from ragbench.safe_text import listed_names

    known = _post_retrieval()
    # Rerankers are known by their own names, too.
    wanted = name if name in known else f"rerank.{name}"
    if wanted not in known:
        raise ConfigError(f"unknown operator '{name}'.{listed_names(name, sorted(known))}")
    registry = known[wanted]
    own = wanted.removeprefix("rerank.") if registry.kind == "rerankers" else wanted
    _print(one := described(registry, own), _explained({**one, "name": wanted}), json=json)


def _show_listed(registry: Registry, *, json: bool) -> None:
    from ragbench.post.build import described

    known = [described(registry, name) for name in registry.targets()]
    _print(known, _entries((one["name"], _unmarked(one["summary"])) for one in known), json=json)


def _explained(one: dict[str, Any]) -> Iterator[str]:
    schema = one["settings"]
    needed = schema.get("required", ())
    yield entry(one["name"], _unmarked(one["summary"]), indent=0)
    yield from _entries([("needs", ", ".join(one["needs"]))] if one["needs"] else [])
    yield from _entries(
        (name, _setting_text(setting, needed=name in needed))
        for name, setting in schema.get("properties", {}).items()
    )


def _setting_text(setting: dict[str, Any], *, needed: bool) -> str:
    kind = _kind(setting)
    if needed:
        kind = f"{kind} (required)"
    elif "default" in setting:
        kind = f"{kind} (default {_value(setting['default'])})"
    return f"{kind}. {_unmarked(setting.get('description', ''))}"


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "anyOf" in schema:
        kinds = [_kind(one) for one in schema["anyOf"] if one != {"type": "null"}]
        return " or ".join(kinds)
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    if "properties" in schema:
        return f"mapping of {', '.join(schema['properties'])}"
    if isinstance(schema.get("type"), list):
        return "name or mapping"
    plain = {
        "boolean": "true or false",
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "object": "mapping",
    }
    return plain.get(schema.get("type", ""), "any value")
