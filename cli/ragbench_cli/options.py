"""How options are declared, and what their values stand for; imports nothing of the library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import typer

CASES = "What is evaluated"
ASKING = "How it is asked"
MEASURED = "What is measured"
JUDGING = "Judging"
ENGINE = "Where it runs"
DEMANDED = "What has to hold"
OUTPUT = "Output"
PANELS = ("Arguments", CASES, "Options", MEASURED, ASKING, DEMANDED, ENGINE, JUDGING, OUTPUT)
"""Their order in the help."""
RARE = " (rarely needed)"
"""Ends the name of a panel that only --help-all shows."""


def option(
    name: str,
    *names: str,
    help: str,
    metavar: str | None = None,
    min: int | None = None,
    show_default: bool = False,
    complete: Callable[[str], list[str]] | None = None,
    panel: str = "Options",
    rare: bool = False,
) -> Any:
    """An option in this program's manner: a panel in the help, shown by --help-all alone if rare.

    Its value may also come from an environment variable, which the program's own help explains
    once, instead of every option for itself.
    """
    return typer.Option(
        name,
        *names,
        help=help,
        metavar=metavar,
        min=min,
        show_default=show_default,
        show_envvar=False,
        autocompletion=complete,
        rich_help_panel=f"{panel}{RARE}" if rare else panel,
    )


def argument(*, metavar: str, help: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    """A positional argument in this program's manner; see `option`."""
    return typer.Argument(
        metavar=metavar,
        help=help,
        show_default=False,
        show_envvar=False,
        autocompletion=complete,
    )


def takes_records(command: Callable[..., None]) -> Callable[..., None]:
    """Makes each field of a command's records an option of the command.

    A record is a dataclass whose fields are annotated with `option` or `argument`, or are records.
    """
    parameters: list[inspect.Parameter] = []
    records: dict[str, type] = {}
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            records[name] = hints[name]
            parameters += _parameters(hints[name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[name], kind=kind))

    @wraps(command)
    def call(**given: Any) -> None:
        made = {name: _record(kind, given) for name, kind in records.items()}
        command(**given, **made)

    signature = inspect.Signature(parameters)
    call.__dict__["__signature__"] = signature
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _parameters(record: type) -> list[inspect.Parameter]:
    found: list[inspect.Parameter] = []
    for field, kind in _options_of(record):
        if is_dataclass(kind):
            found += _parameters(cast("type", kind))
            continue
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        found.append(
            inspect.Parameter(
                _name(field, kind),
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=kind,
            )
        )
    return found


def _record(record: type, given: dict[str, Any]) -> Any:
    """The record that values of options make; takes them out."""
    values = {
        field.name: _record(cast("type", kind), given)
        if is_dataclass(kind)
        else given.pop(_name(field, kind))
        for field, kind in _options_of(record)
    }
    return record(**values)


def _options_of(record: type) -> Iterable[tuple[Field[Any], Any]]:
    """The fields that are options or records; others keep their default."""
    hints: Mapping[str, Any] = get_type_hints(record, include_extras=True)
    kinds = [(each, hints[each.name]) for each in fields(record)]
    return [one for one in kinds if is_dataclass(one[1]) or get_origin(one[1]) is Annotated]


def _name(field: Field[Any], kind: Any) -> str:
    """The name of an option's parameter, and so of its environment variable: that of its flag."""
    flag = getattr(get_args(kind)[-1], "default", None)  # where Typer keeps the first name
    if isinstance(flag, str) and flag.startswith("--"):
        return flag.lstrip("-").replace("-", "_")
    return field.name


RagArgsOption = Annotated[
    str | None,
    option(
        "--rag-args",
        help="Arguments for the class or factory, as JSON.",
        metavar="JSON",
        panel=CASES,
    ),
]
JsonOption = Annotated[
    bool, option("--json", help="Print JSON to standard output instead of text.", panel=OUTPUT)
]


def _engines(typed: str) -> list[str]:
    return [name for name in ("local", "processes", "ray", "ray://") if name.startswith(typed)]


EngineOption = Annotated[
    str,
    option(
        "--engine",
        help="local (this process), processes (of this machine), ray or ray://HOST:PORT. See "
        "docs/cluster.md.",
        metavar="ENGINE",
        show_default=True,
        complete=_engines,
        panel=ENGINE,
    ),
]
EngineWorkersOption = Annotated[
    int | None,
    option(
        "--workers",
        help="Workers of --engine processes or ray; by default one per processor of the machine "
        "or cluster.",
        metavar="N",
        min=1,
        panel=ENGINE,
        rare=True,
    ),
]
EncodingOption = Annotated[
    str | None,
    option(
        "--encoding",
        help="How text files are encoded, such as cp1252, gb18030 or shift_jis. By default UTF-8, "
        "or UTF-16 with a byte order mark; else detected, and reported.",
        metavar="NAME",
        panel=CASES,
        rare=True,
    ),
]
HtmlOption = Annotated[
    Path | None,
    option(
        "--html",
        help="Write a page as one HTML file that needs nothing else.",
        metavar="FILE",
        panel=OUTPUT,
    ),
]
HtmlFolderOption = Annotated[
    Path | None,
    option(
        "--html-folder",
        help="Write the page as index.html with its style and script as files, for servers whose "
        "policy forbids them inside.",
        metavar="DIR",
        panel=OUTPUT,
        rare=True,
    ),
]
RunArgument = Annotated[Path, argument(metavar="RUN", help="Folder of a run.")]


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """The arguments that an option gives as a JSON object; none when it is not given."""
    import orjson

    from ragbench.errors import ConfigError
    from ragbench.masking import hide_arguments

    if text is None:
        return {}
    try:
        value = cast("object", orjson.loads(text))
        hide_arguments(value)
    except orjson.JSONDecodeError as error:
        raise ConfigError(
            f'{option} is not JSON: {error}. Expected an object such as {{"top_k": 3}}, in single '
            "quotes for the shell"
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(f'{option} must be a JSON object such as {{"top_k": 3}}, not {text}')
    return cast("dict[str, Any]", value)


def mapping(entries: Iterable[str] | None, option: str) -> dict[str, str] | None:
    """What a repeated option of the form TARGET=SOURCE says; None when it is not given."""
    from ragbench.errors import ConfigError

    found: dict[str, str] = {}
    for entry in entries or ():
        target, equals, source = entry.partition("=")
        if not equals or not target:
            raise ConfigError(f"{option} {entry}: expected TARGET=SOURCE, such as query=Frage")
        found[target] = source
    return found or None


def one_of(value: str, choices: Sequence[str], option: str) -> str:
    from ragbench.errors import ConfigError

    if value not in choices:
        raise ConfigError(f"{option} must be one of {', '.join(choices)}, not '{value}'")
    return value


def write_page(
    body: Iterable[str], title: str, *, html: Path | None, html_folder: Path | None
) -> None:
    """Writes a page to each place that was named, and says where."""
    from ragbench.views.html.page import write_html, write_html_folder
    from ragbench_cli import console

    parts = list(body)
    if html is not None:
        write_html(html, parts, title=title)
        console.say(f"page    {html}")
    if html_folder is not None:
        console.say(f"page    {write_html_folder(html_folder, parts, title=title)}")


def amount(text: str | None, option: str) -> Decimal | None:
    """A sum of money that was typed; None without one."""
    if text is None:
        return None
    from ragbench.errors import ConfigError

    try:
        return Decimal(text)
    except InvalidOperation:
        raise ConfigError(f"{option} must be a number, not '{text}'") from None
