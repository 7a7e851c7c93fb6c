"""How options are declared, and what their values stand for; imports nothing of the library."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from functools import cache, wraps
from itertools import pairwise
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

if TYPE_CHECKING:
    from ragbench.views.document import Document

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
    *names: str,
    help: str | None = None,
    metavar: str | None = None,
    min: int | None = None,
    show_default: bool = False,
    complete: Completion | Sequence[str] | None = None,
    panel: str | None = None,
    envvar: str | None = None,
    rare: bool = False,
) -> Any:
    """What the type, the default and the documentation of a field leave open of its option.

    Its name, if another than the field's, and short names begin with a dash; what else is among
    the names is what the help calls its value. It stands in the panel of its record unless another
    is given, and is shown by --help-all alone if rare. Its value may also come from an environment
    variable, which the program's own help explains once.
    """
    values = [name for name in names if not name.startswith("-")]
    info = typer.Option(
        *(name for name in names if name.startswith("-")),
        help=help,
        metavar=metavar or (values[0] if values else None),
        min=min,
        envvar=envvar,
        show_default=show_default,
        show_envvar=False,
        autocompletion=complete if complete is None or callable(complete) else among(complete),
        rich_help_panel=panel,
    )
    info.rich_help_panel = (panel or "") + (RARE if rare else "")
    return info


Completion = Callable[[str], list[str]]


def among(names: Sequence[str]) -> Completion:
    """Completes one of some names."""

    def complete(typed: str) -> list[str]:
        return [name for name in names if name.startswith(typed)]

    return complete


def argument(metavar: str, *, help: str | None = None, complete: Completion | None = None) -> Any:
    """A positional argument; see `option`."""
    return typer.Argument(
        metavar=metavar,
        help=help,
        show_default=False,
        show_envvar=False,
        autocompletion=complete,
    )


_METAVARS = {int: "N", float: "SHARE", Path: "FILE", str: "NAME"}
"""What the help calls a value where nothing else is said."""


def takes_records(command: Callable[..., None]) -> Callable[..., None]:
    """Makes each field of a command's records an option of the command.

    A record is a dataclass. The name, the type and the default of a field are those of its option,
    and the text below it is the help; `option` in its annotation says what is left.
    """
    hints = get_type_hints(command, include_extras=True)
    records = {name: cast("type", kind) for name, kind in hints.items() if is_dataclass(kind)}
    parameters: dict[str, inspect.Parameter] = {}
    places: dict[str, tuple[type, str]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name in records:
            _add_options(records[name], parameters, places)
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters[name] = parameter.replace(annotation=hints[name], kind=kind)

    @wraps(command)
    def call(**given: Any) -> None:
        command(**{name: _record(kind, given) for name, kind in records.items()}, **given)

    signature = inspect.Signature([*parameters.values()])
    call.__dict__.update({"__signature__": signature, _PLACES: places})
    call.__annotations__ = {each.name: each.annotation for each in parameters.values()}
    return call


_PLACES = "places"


def _add_options(
    record: type, parameters: dict[str, inspect.Parameter], places: dict[str, tuple[type, str]]
) -> None:
    for field, kind in _options_of(record):
        if is_dataclass(kind):
            _add_options(cast("type", kind), parameters, places)
            continue
        plain, info = (kind, option()) if get_origin(kind) is not Annotated else get_args(kind)
        info = copy(info)
        name = _name(field, kind)
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        if isinstance(info, OptionInfo):
            _complete(info, name, plain, default, getattr(record, "PANEL", "Options"))
        places[name] = record, field.name
        parameters[name] = inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[plain, info],
        )


def _complete(info: OptionInfo, name: str, kind: Any, default: object, panel: str) -> None:
    """Adds to an option what its record says of it."""
    names = [each for each in (info.default, *(info.param_decls or ())) if isinstance(each, str)]
    if not any(each.startswith("--") for each in names):
        names.insert(0, f"--{name.replace('_', '-')}")
    info.default, info.param_decls = names[0], names[1:]
    own = str(info.rich_help_panel or "")
    info.rich_help_panel = f"{panel}{own}" if own in ("", RARE) else own
    kinds = (each for part in (kind, *get_args(kind)) for each in (part, *get_args(part)))
    info.metavar = info.metavar or next((_METAVARS[one] for one in kinds if one in _METAVARS), None)
    info.show_default = not (
        default is inspect.Parameter.empty or default in (None, "") or default is False
    )


def document(command: Any) -> None:
    """Gives the options of a command their help, which stands below the fields of its records."""
    places = getattr(command.callback, _PLACES, {})
    for parameter in command.params:
        if parameter.name in places and not parameter.help:
            record, field = places[parameter.name]
            known = (
                _documents(one.__module__).get((one.__name__, field)) for one in record.__mro__
            )
            parameter.help = next(filter(None, known), None)


@cache
def _documents(module: str) -> dict[tuple[str, str], str]:
    """The text below each field of a module's records."""
    import ast

    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        (record.name, ast.unparse(field.target)): " ".join(text.value.value.split())
        for record in tree.body
        if isinstance(record, ast.ClassDef)
        for field, text in pairwise(record.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _record(record: type, given: dict[str, Any]) -> Any:
    """The record that values of options make; takes them out."""
    values = {
        field.name: _record(cast("type", kind), given)
        if is_dataclass(kind)
        else given.pop(_name(field, kind))
        for field, kind in _options_of(record)
    }
    return record(**values)


@cache
def _options_of(record: type) -> Sequence[tuple[Field[Any], Any]]:
    """The fields of a record with their types."""
    hints: Mapping[str, Any] = get_type_hints(record, include_extras=True)
    return [(each, hints[each.name]) for each in fields(record) if each.init]


def _name(field: Field[Any], kind: Any) -> str:
    """The name of an option's parameter, and so of its environment variable: that of its flag."""
    info = get_args(kind)[-1] if get_origin(kind) is Annotated else None
    flag = getattr(info, "default", None)  # where Typer keeps the first name
    if isinstance(flag, str) and flag.startswith("--"):
        name = flag.lstrip("-").replace("-", "_")
        return field.name if iskeyword(name) else name
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


EngineOption = Annotated[
    str,
    option(
        "--engine",
        help="local (this process), processes (of this machine), ray or ray://HOST:PORT. See "
        "docs/cluster.md.",
        metavar="ENGINE",
        show_default=True,
        complete=("local", "processes", "ray", "ray://"),
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
        if found.get(target, source) != source:
            raise ConfigError(
                f"{option} says twice where {target} is found: {found[target]} and {source}"
            )
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


def check_stdout(*, json: bool, md: str | None) -> None:
    """Refuses two forms that both want standard output."""
    from ragbench.errors import ConfigError

    if json and md == "-":
        raise ConfigError("--json and --md - both want standard output: give --md a file")


def show(
    document: Callable[[], Document],
    *,
    data: Callable[[], object] | None,
    screen: Callable[[], None],
    md: str | None,
    html: Path | None,
    html_folder: Path | None,
    marker: str = "",
) -> None:
    """Writes a document's files, and prints it in the form that was asked for.

    Args:
        data: what ``--json`` prints; None without it.
        marker: what Markdown begins with.
    """
    from ragbench.io.atomic import written_whole
    from ragbench.views.document import markdown
    from ragbench_cli import console

    text = ""
    if md is not None or html is not None or html_folder is not None:
        made = document()
        text = f"{marker}{markdown(made)}"
        if html is not None or html_folder is not None:
            from ragbench.views.html.document import document_page

            page = document_page(made)
            write_page(page.body, page.title, html=html, html_folder=html_folder)
    if md is not None and md != "-":
        with written_whole(Path(md)) as file:
            file.write(text.encode())
    if data is not None:
        console.print_json(data())
    elif md == "-":
        typer.echo(text, nl=False)
    else:
        screen()


def amount(text: str | None, option: str) -> Decimal | None:
    """A sum of money that was typed; None without one."""
    if text is None:
        return None
    from ragbench.errors import ConfigError

    try:
        return Decimal(text)
    except InvalidOperation:
        raise ConfigError(f"{option} must be a number, not '{text}'") from None
