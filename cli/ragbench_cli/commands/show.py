"""``ragbench show``: what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, complete_metrics, subcommands
from ragbench_cli.output import entry, show

if TYPE_CHECKING:
    from ragbench.core.metric import Group, MetricDefinition, Parameter
    from ragbench.io.detect import FormatInfo
    from ragbench.plugins import Registry

app = subcommands("List metrics, formats, rerankers and what else can be named.")


def _print_listing(value: object, lines: Iterable[str], *, json: bool) -> None:
    """Prints what can be chosen from as JSON, or as lines of text.

    All ``ragbench show`` commands end with it.

    Args:
        lines: are made only where they are printed.
    """
    show(value, lambda: typer.echo("\n".join(lines)), json=json)


def _entry_lines(entries: Iterable[tuple[str, str]], *, width: int = 24) -> Iterator[str]:
    """The lines of a list of things that can be named: names in a column, texts beside them.

    Args:
        width: columns of the names.
    """
    for name, text in entries:
        yield entry(name, text, width=width)


@app.command("metrics")
def metrics(json: JsonOption = False) -> None:
    """List the metrics.

    A name is written with a cutoff if it has @k, and with parameters in parentheses where it
    has some: recall@5, nDCG@10, recall(rel=2)@5, rouge1(stemmer=false).

    \b
    Examples:
      ragbench show metrics
      ragbench show metrics --json
    """
    from ragbench.metrics.registry import definitions

    definitions_by_group: dict[Group, list[MetricDefinition]] = {}
    for definition in definitions():
        # Within a group the order of the registry stays.
        definitions_by_group.setdefault(definition.group, []).append(definition)
    lines = _metric_lines(definitions_by_group)
    _print_listing([_metric_object(definition) for definition in definitions()], lines, json=json)


def _metric_lines(
    definitions_by_group: Mapping[Group, Sequence[MetricDefinition]],
) -> Iterator[str]:
    """The lines of ``ragbench show metrics``: each group, and below it its metrics.

    Groups come in the order of the registry.
    """
    for group, members in definitions_by_group.items():
        yield group.value
        yield from _entry_lines(
            (_spelled_name(member), _metric_summary(member)) for member in members
        )


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
        base_name, *_ = read_spelling(name)  # without its parameters and its cutoff
        definition = find_definition(base_name)
    title = f"{_spelled_name(definition)}: {definition.summary}"
    _print_listing(
        _metric_object(definition), (title, *_entry_lines(_metric_facts(definition))), json=json
    )


def _spelled_name(definition: MetricDefinition) -> str:
    """A metric's name as users write it, with the cutoff that it takes, such as ``recall[@k]``.

    Brackets mark a cutoff that may be left out.
    """
    cutoffs = {"required": "@k", "optional": "[@k]", "none": ""}
    return definition.name + cutoffs[definition.cutoff]


def _metric_summary(definition: MetricDefinition) -> str:
    """The line of a metric in the list.

    It says what the metric measures, and in brackets what must be known besides. Which way is
    better is left out where it is up, as it is for most.
    """
    from ragbench.core.metric import Direction

    notes: list[str] = []
    # Parameters, extra and direction in brackets: most metrics have none of them.
    if definition.direction is not Direction.HIGHER:
        notes.append(_better_text(definition))
    for parameter in definition.parameters:
        notes.append(_default_text(parameter))
    if definition.extra:
        notes.append(f"extra {definition.extra}")
    if not notes:
        return definition.summary
    return f"{definition.summary} [{', '.join(notes)}]"


def _better_text(definition: MetricDefinition) -> str:
    """A text on which values of a metric are the better ones.

    A length, say, has no better side, and must not be read as a score.
    """
    direction = definition.direction.value
    if direction == "neither":
        return "neither way is better"
    return f"{direction} is better"


def _default_text(parameter: Parameter) -> str:
    """A metric's parameter with its default, as users write it in a metric's name: ``rel=1``.

    It can be pasted into a metric's name.
    """
    return f"{parameter.name}={_value_text(parameter.default)}"


def _value_text(value: object) -> str:
    """A setting's value as users write it in YAML or in a metric's name.

    YAML has ``true``, and not ``True``.
    """
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _range_text(definition: MetricDefinition) -> str:
    """A text on the values that a metric can have, such as "0 to 1".

    A reader needs it to know whether 0.3 is much.
    """
    low = definition.low
    high = definition.high
    if low is None and high is None:
        return "any number"
    if low is None:
        return f"{high:g} or less"
    if high is None:
        return f"{low:g} or more"
    return f"{low:g} to {high:g}"


def _metric_facts(definition: MetricDefinition) -> list[tuple[str, str]]:
    """The rows of ``ragbench show metric``: a word and a sentence on the metric each.

    They are what the list has no room for: range, needs, cost, parameters, source.
    """
    # The order of the rows is that of a reader's questions: range, needs, cost, then how to set it.
    value_range = _range_text(definition)
    if definition.unit:
        value_range += f" {definition.unit}"
    needs = sorted(need.value for need in definition.needs)
    if not needs:
        needs = ["nothing"]
    facts = [
        ("group", definition.group.value),
        ("range", f"{value_range}, {_better_text(definition)}"),
        ("reads", ", ".join(needs)),
    ]
    if definition.abstains:
        facts.append(("declined", "a declined answer gives no score: it counts as abstained"))
    if definition.calls:
        facts.append(("costs", f"{definition.calls} (calls per case; K is the number of contexts)"))
    for parameter in definition.parameters:
        text = f"{parameter.summary.rstrip('.')}."
        if parameter.choices:
            choices = [_value_text(choice) for choice in parameter.choices]
            text += f" One of {', '.join(choices)}."
        facts.append((_default_text(parameter), text))
    if definition.aliases:
        facts.append(("also", ", ".join(definition.aliases)))
    if definition.extra:
        facts.append(("needs", f"pip install 'ragbench[{definition.extra}]'"))
    # A metric without a paper is known by where its function is.
    facts.append(("source", definition.citation or definition.scorer))
    return facts


_SHOWN = (
    "name",
    "aliases",
    "group",
    "direction",
    "low",
    "high",
    "unit",
    "cutoff",
    "parameters",
    "abstains",
    "deterministic",
    "cost",
    "calls",
    "extra",
    "version",
    "summary",
    "citation",
)
"""The fields of a definition that JSON has, in this order."""


def _metric_object(definition: MetricDefinition) -> dict[str, Any]:
    """A metric's definition as the JSON of ``ragbench show``: without the code that computes it.

    Programs choose metrics by it; the order of fields is that of `_SHOWN`.
    """
    fields = {name: getattr(definition, name) for name in _SHOWN}
    return {**fields, "needs": sorted(definition.needs)}


@app.command("formats")
def formats(json: JsonOption = False) -> None:
    """List the formats of datasets and recorded answers.

    \b
    Example:
      ragbench show formats
    """
    from ragbench.io.detect import formats as all_formats

    form_list = list(all_formats().values())
    _print_listing(form_list, _entry_lines(_format_entries(form_list), width=14), json=json)


def _format_entries(form_list: Sequence[FormatInfo]) -> Iterator[tuple[str, str]]:
    """The entries of ``ragbench show formats``: a format by name and, below it, an example.

    Users recognise their own file by the example rather than by a name.
    """
    for form in form_list:
        text = f"{form.summary} {' and '.join(form.reads).capitalize()}."
        if form.records:
            text += f" Recorded: {form.records}."
        if form.extra:
            text += f" [extra {form.extra}]"
        yield form.name, text
        yield "", f"for example {form.example}"


@app.command("dumps")
def dumps(json: JsonOption = False) -> None:
    """List the forms of retrieval dumps that ragbench validate reads.

    \b
    Example:
      ragbench show dumps
    """
    from ragbench.io.dumps.forms import RANKED, forms

    data: list[dict[str, str]] = []
    for form in forms().values():
        data.append({"name": form.name, "summary": form.summary, "example": form.example})
    # Rankings without texts come behind the forms that a validator can judge.
    for name, (summary, example) in RANKED.items():
        data.append({"name": name, "summary": summary, "example": example})
    entries: list[tuple[str, str]] = []
    for form_data in data:
        entries.append((form_data["name"], form_data["summary"]))
        # An empty name puts the example below the summary, in the same column.
        entries.append(("", f"such as {form_data['example']}"))
    _print_listing(data, _entry_lines(entries, width=14), json=json)


@app.command("exports")
def exports(json: JsonOption = False) -> None:
    """List the formats that a run is exported to.

    \b
    Example:
      ragbench show exports
    """
    from ragbench.io.export import EXPORTS
    from ragbench.io.settings import summary_of

    summaries: dict[str, str] = {}
    for name in EXPORTS.targets():
        # Loaded one by one for their docstrings, which are the summaries.
        summaries[name] = _unmarked(summary_of(EXPORTS.load(name)))
    data = [{"name": name, "summary": summary} for name, summary in summaries.items()]
    _print_listing(data, _entry_lines(summaries.items(), width=10), json=json)


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
    # In the order in which a question passes the stages; orchestration runs around all of them.
    sections = {
        "pre_retrieval": QUERY_TRANSFORMS,
        "retrieval": RETRIEVALS,
        "generation": GENERATIONS,
        "orchestration": ORCHESTRATIONS,
    }
    _print_listing(schema, _pipeline_lines(schema, sections), json=json)


def _pipeline_lines(schema: dict[str, Any], sections: Mapping[str, Registry]) -> Iterator[str]:
    """The lines of ``ragbench show pipeline``: settings of indexing, then kinds of other stages.

    They are read from the code, so that the list is that of this version.

    Args:
        schema: of a pipeline file, with the settings of indexing.
        sections: the implementations of each other stage, by the section of the file.
    """
    # Indexing has settings of its own; the other stages have kinds with settings.
    yield "indexing"
    for name, setting in schema["properties"]["indexing"]["properties"].items():
        yield entry(name, _unmarked(setting.get("description", "")))
    for section, registry in sections.items():
        yield f"{section} (type)"
        for name in registry.targets():
            yield entry(name, _stage_text(registry.load(name)))
    yield "post_retrieval: see docs/post_retrieval.md"


def _schema_names(typed: str) -> list[str]:
    """The kinds of files that begin with what the user typed, for the shell's completion.

    Kinds are such as ``pipeline``; each has a JSON schema.
    """
    from ragbench_cli.schemas import SCHEMAS

    return [name for name in SCHEMAS if name.startswith(typed)]


@app.command("schema")
def schema(
    name: Annotated[
        str,
        argument(
            metavar="NAME",
            help="A kind of file: post_retrieval, pipeline or ragbench.",
            complete=_schema_names,
        ),
    ],
) -> None:
    """Print the JSON schema of a YAML file, for editors.

    ragbench init writes it beside the file, whose first line names it to the editor.

    \b
    Examples:
      ragbench show schema post_retrieval > post_retrieval.schema.json
      ragbench show schema ragbench
    """
    from ragbench.safe_text import listed_names
    from ragbench_cli.schemas import SCHEMAS, schema_bytes

    # The name of the file is as good as that of the kind.
    key = name.replace("-", "_").removesuffix(".yaml")
    if key not in SCHEMAS:
        raise ConfigError(f"no file '{name}' has a schema.{listed_names(key, list(SCHEMAS))}")
    typer.echo(schema_bytes(key).decode(), nl=False)


def _stage_text(target: object) -> str:
    """The summary of an implementation of a pipeline's stage, with its settings and defaults.

    It is read from the class itself, so that the list is never out of date.
    """
    from ragbench.io.settings import schema_of_settings, summary_of

    settings: list[str] = []
    for name, schema in schema_of_settings(target).get("properties", {}).items():
        # A default of None is a default, so the key decides and not the value.
        if "default" in schema:
            settings.append(f"{name}={_value_text(schema['default'])}")
        else:
            settings.append(name)
    summary = _unmarked(summary_of(target))
    if not settings:
        return summary
    return f"{summary} [{', '.join(settings)}]"


def _unmarked(text: str) -> str:
    """A docstring's text without backticks, the marks of code, for the terminal.

    Docstrings are written for web pages, where these marks become code.
    """
    return text.replace("`", "")


def _operator_names(typed: str) -> list[str]:
    """The operators and rerankers that begin with what the user typed, for the shell.

    A shell shows them when its user presses the tab key.
    """
    return [name for name in _operator_registries() if name.startswith(typed)]


def _operator_registries() -> dict[str, Registry]:
    """The registries of operators and rerankers, by each name that users know these by.

    Rerankers are operators, too: ``rerank.NAME``.
    """
    from ragbench.post.build import OPERATORS, RERANKERS

    registries: dict[str, Registry] = {}
    for name in OPERATORS.targets():
        registries[name] = OPERATORS
    for name in RERANKERS.targets():
        registries[f"rerank.{name}"] = RERANKERS
    return registries


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

    registries = _operator_registries()
    # Rerankers are known by their own names, too.
    full_name = name
    if name not in registries:
        full_name = f"rerank.{name}"
    if full_name not in registries:
        raise ConfigError(f"unknown operator '{name}'.{listed_names(name, sorted(registries))}")
    registry = registries[full_name]
    # The registry knows a reranker without the prefix; the user is shown the full name.
    registered_name = full_name
    if registry.kind == "rerankers":
        registered_name = full_name.removeprefix("rerank.")
    description = described(registry, registered_name)
    _print_listing(description, _operator_lines({**description, "name": full_name}), json=json)


def _show_listed(registry: Registry, *, json: bool) -> None:
    """Lists the operators or rerankers of a registry, each by its name and in a sentence.

    Args:
        json: whether they are printed with all of their settings as JSON.
    """
    from ragbench.post.build import described

    descriptions = [described(registry, name) for name in registry.targets()]
    entries: list[tuple[str, str]] = []
    for description in descriptions:
        entries.append((description["name"], _unmarked(description["summary"])))
    _print_listing(descriptions, _entry_lines(entries), json=json)


def _operator_lines(description: dict[str, Any]) -> Iterator[str]:
    """The lines of ``ragbench show operator``: summary, extras that it needs, and settings.

    A user writes his YAML file by them.

    Args:
        description: as ``--json`` prints it; its settings are a JSON schema.
    """
    schema = description["settings"]
    # Required settings have no default to show.
    required = schema.get("required", ())
    yield entry(description["name"], _unmarked(description["summary"]), indent=0)
    if description["needs"]:
        yield entry("needs", ", ".join(description["needs"]))
    for name, setting in schema.get("properties", {}).items():
        yield entry(name, _setting_text(setting, needed=name in required))


def _setting_text(setting: dict[str, Any], *, needed: bool) -> str:
    """A text on a setting of an operator: its type, its default, and what it does.

    The type is worded for users of YAML.

    Args:
        setting: its JSON schema.
        needed: whether it must be given.
    """
    kind = _kind_text(setting)
    if needed:
        kind = f"{kind} (required)"
    # A setting may be optional without a default.
    elif "default" in setting:
        kind = f"{kind} (default {_value_text(setting['default'])})"
    return f"{kind}. {_unmarked(setting.get('description', ''))}"


def _kind_text(schema: dict[str, Any]) -> str:
    """A text on the type of an operator's setting, from its JSON schema.

    Users of YAML need not know schemas.
    """
    # From the narrowest form to the widest: a schema may have a type beside its choices.
    if "enum" in schema:
        values = [str(value) for value in schema["enum"]]
        return f"one of {', '.join(values)}"
    if "anyOf" in schema:
        # null is the default of a setting that may be left out, and says nothing.
        kinds = [_kind_text(part) for part in schema["anyOf"] if part != {"type": "null"}]
        return " or ".join(kinds)
    if schema.get("type") == "array":
        return f"list of {_kind_text(schema['items'])}"
    if "properties" in schema:
        return f"mapping of {', '.join(schema['properties'])}"
    if isinstance(schema.get("type"), list):
        return "name or mapping"
    words = {
        "boolean": "true or false",
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "object": "mapping",
    }
    return words.get(schema.get("type", ""), "any value")
