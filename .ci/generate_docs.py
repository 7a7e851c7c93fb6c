"""Writes docs/cli.md, metrics.md, operators.md, python.md and three JSON schemas from the program.

Run from the root of the project::

    python .ci/generate_docs.py

``tests/cli/test_docs.py`` compares.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VIEWS = ROOT / "ragbench" / "views"
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]

import msgspec  # noqa: E402
import typer.main  # noqa: E402

import ragbench  # noqa: E402
from ragbench.core.comparison import Comparison  # noqa: E402
from ragbench.core.gate_result import GateResult  # noqa: E402
from ragbench.core.metric import MetricDefinition  # noqa: E402
from ragbench.metrics.registry import (  # noqa: E402
    default_metrics,
    definitions,
)
from ragbench.post.build import OPERATORS, RERANKERS, described  # noqa: E402
from ragbench.views.report import ReportFile  # noqa: E402
from ragbench_cli.commands.show import _setting_text  # noqa: E402
from ragbench_cli.main import COMMANDS, CommandPanel, app  # noqa: E402
from ragbench_cli.options import document  # noqa: E402
from ragbench_cli.renamed import COMMANDS as RENAMED_COMMANDS  # noqa: E402
from ragbench_cli.renamed import OPTIONS as RENAMED_OPTIONS  # noqa: E402


def pages() -> dict[Path, str]:
    """The generated pages, by path."""
    return {
        ROOT / "docs" / "cli.md": "\n".join(cli_page()),
        ROOT / "docs" / "metrics.md": "\n".join(metrics_page()),
        ROOT / "docs" / "operators.md": "\n".join(operators_page()),
        ROOT / "docs" / "python.md": "\n".join(python_page()),
        VIEWS / "verdict.schema.json": schema(
            GateResult,
            exit_code={"enum": [0, 1, 3]},
            colour={"enum": ["green", "yellow", "red"]},
        ),
        VIEWS / "comparison.schema.json": schema(Comparison),
        VIEWS / "report.schema.json": schema(ReportFile, version=3),
    }


def schema(record: type, *, version: int = 2, **more: dict[str, Any]) -> str:
    """The JSON schema of a record that is printed as it is, behind the number of its version."""
    found = msgspec.json.schema(record)
    own, head = found["$defs"][record.__name__], {"schema_version": {"const": version}, **more}
    own["properties"] = head | own["properties"]
    own["required"] = [*head, *own["required"]]
    draft = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps({"$schema": draft, **found}, indent=2) + "\n"


# --- docs/cli.md


def cli_page() -> Iterator[str]:
    program: Any = typer.main.get_command(app)
    yield "# The command line"
    yield ""
    yield "Made from the program's own help by `python .ci/generate_docs.py`; tests compare."
    yield ""
    yield from description(program)
    yield from options(program, ("ragbench",))
    for panel in CommandPanel:
        yield f"## {panel}"
        yield ""
        for name, listed in COMMANDS.items():
            if listed.panel is not panel:
                continue
            command = program.commands[name].loaded()
            subcommands = getattr(command, "commands", None)
            if subcommands is None:
                yield from section(command, ("ragbench", name))
                continue
            for inner_name, subcommand in subcommands.items():
                yield from section(subcommand, ("ragbench", name, inner_name))
    yield from renamed_options()


def renamed_options() -> Iterator[str]:
    yield "## Renamed before 0.1.0"
    yield ""
    yield "Old names, and their environment variables, work for one more release."
    yield ""
    yield "| command | old | new |"
    yield "|---|---|---|"
    for old, new in RENAMED_COMMANDS.items():
        yield f"| | `{old}` | `{new}` |"
    for command, names in RENAMED_OPTIONS.items():
        for old, new in names.items():
            yield f"| `{command}` | `{old}` | `{new}` |"
    yield ""


def section(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    names = [argument.metavar for argument in command.params if is_argument(argument)]
    yield f"### {' '.join(path)}"
    yield ""
    yield "```text"
    yield " ".join([*path, *names, "[OPTIONS]"])
    yield "```"
    yield ""
    yield from description(command)
    yield from options(command, path)


def description(command: Any) -> Iterator[str]:
    """The paragraphs of a help text; those whose lines are kept become blocks of code."""
    for paragraph in inspect.cleandoc(command.help).split("\n\n"):
        if paragraph.startswith("\b\n"):
            title, *lines = paragraph[2:].splitlines()
            yield title
            yield ""
            yield "```text"
            yield from (line.removeprefix("  ") for line in lines)
            yield "```"
        else:
            yield " ".join(paragraph.split())
        yield ""


def options(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    document(command)
    prefix = "_".join(path).upper().replace("-", "_") if path[1:] else None
    yield "| argument or option | meaning | default | environment |"
    yield "|---|---|---|---|"
    for parameter in command.params:
        if is_argument(parameter):
            yield f"| `{parameter.metavar}` | {cell(parameter.help)} | needed | |"
            continue
        if parameter.name in ("install_completion", "show_completion"):
            continue
        value = f" {parameter.metavar}" if parameter.metavar else ""
        spelled = ", ".join(f"`{name}{value}`" for name in sorted(parameter.opts, key=len))
        default = f"`{parameter.default}`" if parameter.show_default and value else ""
        variable = parameter.envvar or (f"{prefix}_{parameter.name.upper()}" if prefix else None)
        named = f"`{variable}`" if variable else ""
        yield f"| {spelled} | {cell(parameter.help)} | {default} | {named} |"
    if path == ("ragbench",):
        yield "| `--install-completion` | Install completion for the current shell. | | |"
        yield "| `--show-completion` | Print the completion script of the current shell. | | |"
    yield ""


def is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# --- docs/metrics.md

_HEAD = """\
# Metrics

Made from the metrics' own definitions by `python .ci/generate_docs.py`; tests compare.

A metric is written with its parameters in parentheses and its cutoff behind an `@`:
`recall@5`, `nDCG@10`, `precision(rel=2)@5`, `rouge1(stemmer=false)`. Upper and lower case are
the same.
`ragbench show metric NAME` prints the same as this page. [Your own metric](your_own_metric.md) is a
function in a file: `my.py:function`.

A case that lacks something that a metric reads is skipped, a declined answer is abstained, a
failure is failed: none of them is ever counted as 0. Each score comes with the number of cases
that it covers.

The k of rank metrics counts documents where documents are relevant, each once, at its best chunk,
as in trec_eval; where chunks or passages are, it counts chunks. See
[matching](run_folder.md#how-chunks-are-matched).
A case with judgements, but without a relevant document (with `rel=2`: without one of grade 2 or
more), counts 0 in every rank metric, as in trec_eval. It is skipped if it is marked
`answerable: false`.

Tests compare each metric that cites a published formula with its reference implementation, on 400
random cases: rank metrics with trec_eval (by ir_measures), `exact_match`, `token_f1` and the
end-to-end metrics with SQuAD's scripts, ROUGE with rouge_score and RAGAS, BLEU and chrF with
sacrebleu. A difference is in the first line of the metric.
"""


def metrics_page() -> Iterator[str]:
    yield _HEAD
    yield f"Without `--metrics`, these are measured: {default_list()}."
    yield ""
    known = definitions()
    for group in dict.fromkeys(definition.group for definition in known):
        yield f"## {group.value.capitalize()}"
        yield ""
        for definition in known:
            if definition.group is group:
                yield from metric(definition)


def default_list() -> str:
    return ", ".join(f"`{metric.name}`" for metric in default_metrics())


def metric(definition: MetricDefinition) -> Iterator[str]:
    cutoff = {"required": "@k", "optional": "[@k]", "none": ""}[definition.cutoff]
    yield f"### `{definition.name}{cutoff}`"
    yield ""
    yield f"{cell(definition.summary)}."
    yield ""
    high = "" if definition.high is None else f" to {definition.high:g}"
    low = f"{definition.low:g}{high}" if high else f"{definition.low:g} or more"
    better = {"higher": "higher is better", "lower": "lower is better", "neither": "it informs"}
    unit = f" {definition.unit}" if definition.unit else ""
    yield f"- range: {low}{unit}; {better[definition.direction.value]}"
    needs = ", ".join(f"`{need.value}`" for need in sorted(definition.needs))
    yield f"- reads: {needs}"
    if definition.calls:
        yield f"- costs: {definition.calls} (calls per case; K is the number of contexts)"
    if definition.abstains:
        yield "- a declined answer is abstained"
    for parameter in definition.parameters:
        default = str(parameter.default)
        shown = default.lower() if isinstance(parameter.default, bool) else default
        choices = ", ".join(f"`{choice}`" for choice in parameter.choices)
        among = f" (one of {choices})" if choices else ""
        yield f"- `{parameter.name}={shown}`: {cell(parameter.summary)}{among}"
    if definition.aliases:
        yield f"- also: {', '.join(f'`{alias}`' for alias in definition.aliases)}"
    if definition.extra:
        yield f"- needs `pip install 'ragbench[{definition.extra}]'`"
    yield f"- source: {cell(definition.citation)}"
    yield ""


# --- docs/operators.md


def operators_page() -> Iterator[str]:
    yield "# Operators and rerankers"
    yield ""
    yield "Generated by `python .ci/generate_docs.py` from the program; tests compare."
    yield ""
    yield "Use an operator in [post-retrieval](post_retrieval.md) as"
    yield "`{action: NAME, SETTING: VALUE}`, and a [reranker](rerankers.md) as"
    yield "`{action: rerank, type: NAME, SETTING: VALUE}`."
    yield "`ragbench show operator NAME` prints the same."
    yield ""
    for title, registry in (("Operators", OPERATORS), ("Rerankers", RERANKERS)):
        yield f"## {title}"
        yield ""
        for name in registry.targets():
            yield from operator(described(registry, name))


def operator(one: dict[str, Any]) -> Iterator[str]:
    yield f"### `{one['name']}`"
    yield ""
    yield cell(unmarked(one["summary"]))
    yield ""
    if one["needs"]:
        yield f"Needs: {', '.join(one['needs'])}."
        yield ""
    settings = one["settings"].get("properties", {})
    if settings:
        yield "| setting | value and meaning |"
        yield "|---|---|"
        for name, setting in settings.items():
            needed = name in one["settings"].get("required", ())
            yield f"| `{name}` | {cell(unmarked(_setting_text(setting, needed=needed)))} |"
        yield ""


# --- docs/python.md


def python_page() -> Iterator[str]:
    yield "# Python"
    yield ""
    yield "Generated by `python .ci/generate_docs.py` from the docstrings; tests compare."
    yield ""
    yield "Import from `ragbench`, `ragbench.records` and `ragbench.errors` only: these names stay."
    yield "`make docs` builds the full reference with arguments, errors and examples into"
    yield "`build/docs/api`."
    yield "The panels are those of `ragbench --help`; functions come before classes."
    for panel, names in public_names().items():
        yield ""
        yield f"## {panel}"
        yield ""
        yield "| name | use |"
        yield "|---|---|"
        functions = [name for name in names if not inspect.isclass(getattr(ragbench, name))]
        classes = [name for name in names if name not in functions]
        for name in [*functions, *classes]:
            yield f"| `{name}` | {cell(first_line(getattr(ragbench, name)))} |"
    yield ""
    yield "## Records"
    yield ""
    yield "`ragbench.records` has the types of their fields and methods, for annotations:"
    yield f"{', '.join(f'`{name}`' for name in sorted(record_names()))}."
    yield ""


def public_names() -> dict[str, list[str]]:
    """The public names, sorted, by the panel under which the stub imports them."""
    stub = (ROOT / "ragbench" / "__init__.pyi").read_text("utf-8")
    # The pieces are the text before the first panel, then title and imports of each.
    pieces = re.split(r"^# Panel: (.+)$", stub, flags=re.MULTILINE)
    panels = {}
    for title, imports in zip(pieces[1::2], pieces[2::2], strict=True):
        panels[title] = sorted(re.findall(r" as (\w+)$", imports, flags=re.MULTILINE))
    return panels


def record_names() -> list[str]:
    """The names that `ragbench.records` imports."""
    source = (ROOT / "ragbench" / "records.py").read_text("utf-8")
    return re.findall(r" as (\w+)$", source, flags=re.MULTILINE)


def first_line(thing: Any) -> str:
    """The first paragraph of a docstring, as Markdown."""
    return unmarked(inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0])


def unmarked(paragraph: str) -> str:
    return re.sub(r":\w+:`~?\.?([^`]*)`|``([^`]*)``", r"`\1\2`", paragraph)


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
