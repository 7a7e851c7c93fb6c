"""How options are declared, and what their values stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from enum import StrEnum
from functools import cache, wraps
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast, get_args, get_type_hints

import typer
from msgspec import NODEFAULT, structs
from typer.models import OptionInfo

from ragbench.core.record import Record, field_docs
from ragbench.errors import ConfigError

if TYPE_CHECKING:
    from ragbench.io.only import Only
    from ragbench.io.people import LabelBook


class Panel(StrEnum):
    """Of options in the help, in their order there."""

    ARGUMENTS = "Arguments"
    CASES = "What is evaluated"
    OPTIONS = "Options"
    MEASURED = "What is measured"
    ASKING = "How it is asked"
    DEMANDED = "What has to hold"
    ENGINE = "Where it runs"
    JUDGING = "Judging"
    OUTPUT = "Output"


RARE = " (rarely needed)"
"""Ends the name of a panel that only --help-all shows."""

Completion = Callable[[str], list[str]]
"""From what was typed of a value to the values that begin so."""


def option(
    *names: str,
    help: str | None = None,
    min: int | None = None,
    complete: Completion | Sequence[str] | None = None,
    panel: str = "",
    envvar: str | None = None,
    rare: bool = False,
) -> Any:
    """The description of an option for Typer.

    It holds whatever the type and the default of its field leave open. Its name, if another than
    the field's, and short names begin with a dash; what else is among the names is what the help
    calls its value. It stands in the panel of its record unless another is given, and is shown by
    --help-all alone if rare. Its value may also come from an environment variable, which the
    program's own help explains once.
    """
    # ``names`` has flags and the word for the option's value, known by the dash: most options have
    # neither.
    flags: list[str] = []
    metavar: str | None = None
    for name in names:
        if name.startswith("-"):
            flags.append(name)
        elif metavar is None:
            metavar = name
    if complete is not None and not callable(complete):
        complete = among(complete)
    # The suffix is a part of the panel's name, which `_write_options` looks for.
    if rare:
        panel += RARE
    return typer.Option(
        *flags,
        help=help,
        metavar=metavar,
        min=min,
        envvar=envvar,
        # The help of ragbench prints neither defaults nor variables: its own texts have them.
        show_default=False,
        show_envvar=False,
        autocompletion=complete,
        rich_help_panel=panel,
    )


def among(names: Iterable[str]) -> Completion:
    """A completion for shells: it offers those of some names that begin with the typed letters.

    Args:
        names: all values that the option takes.
    """

    def complete(typed: str) -> list[str]:
        """Those of the enclosing call's ``names`` that begin with the typed letters.

        A shell asks for them when its user presses the tab key.
        """
        return [name for name in names if name.startswith(typed)]

    return complete


def completed(kind: str, *others: str) -> Completion:
    """A completion for shells.

    It offers what ragbench and other packages bring of a kind, and others.

    Args:
        kind: a registry of plug-ins, such as ``embedders``.
        others: names that the option takes besides.
    """

    def complete(typed: str) -> list[str]:
        """The names that begin with the typed letters.

        They are of the enclosing call's ``kind`` and ``others``.
        """
        # Read when somebody types: to look for what other packages bring takes time.
        from ragbench.plugins import Registry

        names = (*others, *sorted(Registry(kind=kind).targets()))
        return [name for name in names if name.startswith(typed)]

    return complete


def complete_metrics(typed: str) -> list[str]:
    """The completions of the last metric in a list such as ``recall@5,mr``, for shells.

    What stands before the last comma is kept: a shell replaces the whole word.
    """
    from ragbench.metrics.registry import definitions

    # Without a comma `before` and `comma` are empty.
    before, comma, last = typed.rpartition(",")
    completions: list[str] = []
    for definition in definitions():
        # In any case, as metrics are read.
        if definition.name.casefold().startswith(last.casefold()):
            completions.append(f"{before}{comma}{definition.name}")
    return completions


def argument(metavar: str, *, help: str | None = None, complete: Completion | None = None) -> Any:
    """The description of a positional argument for Typer; see `option`.

    Args:
        metavar: how the help calls its value.
        complete: gives completions for shells.
    """
    return typer.Argument(
        metavar=metavar, help=help, show_default=False, show_envvar=False, autocompletion=complete
    )


def subcommands(help: str) -> typer.Typer:
    """A group of commands under one name, such as ``ragbench cache``.

    The name alone prints their help.
    """
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)


_METAVARS = {int: "N", float: "SHARE", Path: "FILE", str: "NAME"}
"""What the help calls a value where nothing else is said."""
_PLACES = "places"
"""The attribute of a command that holds the record and the field of each option."""
_BY_NAME = inspect.Parameter.KEYWORD_ONLY


class _Field(Record, kw_only=False):
    """A field of a command's record: an option, or another record with options of its own."""

    name: str
    option: str
    """The name of its parameter, and so of its environment variable: that of its flag."""
    kind: Any
    info: Any
    """What Typer is told of it; None for a record."""
    default: object


def takes_records(command: Callable[..., None]) -> Callable[..., None]:
    """Makes each field of a command's records an option of the command, for Typer.

    Records group options: a stage of a command takes the record that it needs, and not 30
    arguments.

    The name, the type and the default of a field are those of its option,
    and the text below it is the help; `option` in its annotation says what is left.
    """
    hints = get_type_hints(command, include_extras=True)
    records: dict[str, type] = {name: kind for name, kind in hints.items() if _is_record(kind)}
    parameters: dict[str, inspect.Parameter] = {}
    places: dict[str, tuple[type, str]] = {}
    # In the order of the command's parameters, which is that of its help.
    for name, parameter in inspect.signature(command).parameters.items():
        # A plain parameter stays as it is, given by its name.
        if name not in records:
            parameters[name] = parameter.replace(annotation=hints[name], kind=_BY_NAME)
            continue
        for record, record_field in _options_of(records[name]):
            option_name = record_field.option
            # For the help, which is read from the record's source only when it is shown.
            places[option_name] = record, record_field.name
            parameters[option_name] = inspect.Parameter(
                option_name,
                _BY_NAME,
                default=record_field.default,
                annotation=Annotated[record_field.kind, record_field.info],
            )

    @wraps(command)
    def call(**values: Any) -> None:
        """Builds the records of ``command`` from the values of its options, and calls it.

        Typer calls this with one value per option, by the name of the option's parameter.
        """
        arguments: dict[str, Any] = {}
        for name, kind in records.items():
            arguments[name] = _take_record(kind, values)
        # What no record has taken is an argument of the command itself.
        command(**arguments, **values)

    # Typer reads the signature and the annotations of a command.
    signature = inspect.Signature([*parameters.values()])
    call.__dict__.update({"__signature__": signature, _PLACES: places})
    call.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return call


def _is_record(kind: object) -> bool:
    """Whether the type of a command's parameter is a record, whose fields are its options.

    Anything else is an option by itself.
    """
    return isinstance(kind, type) and issubclass(kind, Record)


def _take_record(record: type, values: dict[str, Any]) -> Any:
    """Builds a record of options from the values that Typer has read, and takes these out of them.

    What no record has taken is an argument of the command itself.

    Args:
        values: all values of a command by the names of its options; this changes it.
    """
    arguments: dict[str, Any] = {}
    for record_field in _record_fields(record):
        if record_field.info is None:
            arguments[record_field.name] = _take_record(record_field.kind, values)
        else:
            # `pop`: what is left in the end is the command's own.
            arguments[record_field.name] = values.pop(record_field.option)
    return record(**arguments)


def _options_of(record: type) -> Iterator[tuple[type, _Field]]:
    """The options of a record and of records within it, each with the record that has it.

    `document` finds an option's help by that record and field.
    """
    for record_field in _record_fields(record):
        if record_field.info is None:
            yield from _options_of(record_field.kind)
        else:
            yield record, record_field


@cache
def _record_fields(record: type) -> Sequence[_Field]:
    """The fields of a record of options, with all that Typer must know of each.

    The help of a field comes later, by `document`: to read it takes time.
    """
    hints: Mapping[str, Any] = get_type_hints(record, include_extras=True)
    record_fields: list[_Field] = []
    for struct_field in structs.fields(record):
        name = struct_field.name
        kind = hints[name]
        default = struct_field.default
        if default is NODEFAULT:
            default = inspect.Parameter.empty
        if _is_record(kind):
            # Without info: a record within, whose own fields are options.
            record_fields.append(_Field(name, name, kind, None, default))
            continue
        info = option()
        if hasattr(kind, "__metadata__"):  # it is Annotated
            kind, info = get_args(kind)
        info = copy(info)  # several records may share the annotation
        option_name = name
        if isinstance(info, OptionInfo):
            # A record names the panel of the help that its options are shown in.
            panel = getattr(record, "PANEL", "Options")
            option_name = _complete_option(info, name, kind, panel)
            has_default = default is not inspect.Parameter.empty
            # A default that is None, empty or False is what anybody expects.
            info.show_default = has_default and default not in (None, "") and default is not False
        record_fields.append(_Field(name, option_name, kind, info, default))
    return record_fields


def _complete_option(info: OptionInfo, field: str, kind: Any, panel: str) -> str:
    """Completes an option with what its field says: flag, panel of the help, name of its value.

    So a field needs no more than its type, its default, and a text below it.

    Args:
        info: the option as declared; it is changed in place.

    Returns:
        The name of the option's parameter, and so of its environment variable.
    """
    # Typer keeps the first name in ``default``, and the others in ``param_decls``.
    names = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
    flag: str | None = None
    for name in names:
        if name.startswith("--"):
            flag = name
            break
    if flag is None:
        names.insert(0, f"--{field.replace('_', '-')}")
    info.default = names[0]
    info.param_decls = names[1:]
    own_panel = str(info.rich_help_panel or "")
    if own_panel in ("", RARE):
        info.rich_help_panel = f"{panel}{own_panel}"
    else:
        info.rich_help_panel = own_panel
    if not info.metavar:
        info.metavar = _metavar(kind)
    parameter = (flag or field).lstrip("-").replace("-", "_")
    # A parameter cannot have the name of a keyword, such as --from.
    return field if iskeyword(parameter) else parameter


def _metavar(kind: Any) -> str | None:
    """The name that the help has for a value of a type, such as ``FILE`` for ``Path | None``.

    It is None for a type without such a name.
    """
    for part in (kind, *get_args(kind)):
        # Two levels: ``list[Path] | None`` has the path within the list.
        for inner in (part, *get_args(part)):
            if inner in _METAVARS:
                return _METAVARS[inner]
    return None


def long_name(parameter: Any) -> str:
    """The long name of an option for messages: ``--metrics``, and not ``-m``.

    An error that names an option by its letter says too little.
    """
    return str(max(parameter.opts, key=len))


def document(command: Any) -> None:
    """Gives the options of a command their help.

    It is the text below the fields of the command's records. It is read from the source, and so
    only where a help or an error shows it.
    """
    places = getattr(command.callback, _PLACES, {})
    for parameter in command.params:
        # A help that is given with the option goes first.
        if parameter.name in places and not parameter.help:
            record, field = places[parameter.name]
            parameter.help = field_docs(record).get(field)


JsonOption = Annotated[
    bool,
    option("--json", help="Print JSON to standard output instead of text.", panel=Panel.OUTPUT),
]
ValidatorArgsOption = Annotated[
    str | None,
    option("JSON", help="Settings of the validator, as JSON.", panel=Panel.MEASURED, rare=True),
]
CalibrationOption = Annotated[
    Path | None,
    option(
        help="File that ragbench calibrate wrote, for probabilities that fit your data.",
        panel=Panel.MEASURED,
        rare=True,
    ),
]
EncodingOption = Annotated[
    str | None,
    option(
        help="How text files are encoded, such as cp1252, gb18030 or shift_jis. By default UTF-8, "
        "or UTF-16 with a byte order mark; else detected, and reported.",
        panel=Panel.CASES,
        rare=True,
    ),
]
EngineOption = Annotated[
    str,
    option(
        "ENGINE",
        complete=("local", "processes", "ray", "ray://"),
        panel=Panel.ENGINE,
        rare=True,
    ),
]
RunArgument = Annotated[Path, argument("RUN", help="Folder of a run.")]


class RecordChoice(Record):
    """Which records of a source are taken."""

    PANEL: ClassVar = Panel.CASES

    since: Annotated[str | None, option("TIME", rare=True)] = None
    """Take only records from this date or time on (UTC, unless it names a zone), such as traces of
    production: 2026-09-21 or 2026-09-21T10:00."""
    until: Annotated[str | None, option("TIME", rare=True)] = None
    """Take only records up to this date, with all of it, or time."""
    where: Annotated[list[str] | None, option("NAME=VALUE", rare=True)] = None
    """Take only records with this value in a field, or in their metadata, such as user=ada or
    feedback.thumbs=0 (dots lead into objects); repeatable."""

    @property
    def only(self) -> Only | None:
        """The filter that records of a source must pass by the options.

        The filter is None where all records are taken.
        """
        # None, so that a source without a filter is read the quick way.
        if not (self.since or self.until or self.where):
            return None
        from ragbench.io.only import Only

        where = mapping(self.where or (), "--where", "NAME=VALUE, such as user=ada")
        return Only(since=self.since, until=self.until, where=where)


class OnEngine(Record):
    """Where the work is done."""

    engine: EngineOption = "local"
    """local (this process), processes (of this machine), ray or ray://HOST:PORT. See
    docs/cluster.md."""
    workers: Annotated[int | None, option(min=1, panel=Panel.ENGINE, rare=True)] = None
    """Workers of --engine processes or ray; by default one per processor of the machine or
    cluster."""


class Labelled(Record):
    """Labels of people: they decide about their answers, and correct figures of all."""

    PANEL: ClassVar = Panel.MEASURED

    labels: Annotated[list[str] | None, option("FILE", rare=True)] = None
    """Labels of people, or METRIC=FILE, or of ratings "METRIC>=4=FILE"; repeatable. They decide
    about the answers that they label, before a judge and words, and correct the figures of all. See
    docs/labels.md."""

    @property
    def book(self) -> LabelBook | None:
        """The labels of people in all files that --labels names; None where it names none.

        `book_by` is for tables whose columns have other names.
        """
        return self.book_by({})

    def book_by(self, columns: Mapping[str, str]) -> LabelBook | None:
        """The labels of people in all files of --labels, of tables with columns of other names.

        Users who label in their dataset's own table need not rename its columns.

        Args:
            columns: the names of the columns that hold ``query`` and ``response``.
        """
        if not self.labels:
            return None
        from ragbench.io.people import LabelBook

        return LabelBook.read(self.labels, columns)


def json_object(text: str, option: str) -> dict[str, Any]:
    """The object in an option's JSON text, such as the arguments of a RAG.

    Values that look like credentials are hidden in all texts from then on. An error names the
    option and shows the right form.
    """
    import orjson

    from ragbench.masking import hide_arguments

    try:
        value = cast("object", orjson.loads(text))
        # Before the type is checked: the error below may show the text.
        hide_arguments(value)
    except orjson.JSONDecodeError as error:
        raise ConfigError(
            f'{option} is not JSON: {error}. Expected an object such as {{"top_k": 3}}, in single '
            "quotes for the shell"
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(f'{option} must be a JSON object such as {{"top_k": 3}}, not {text}')
    return cast("dict[str, Any]", value)


def mapping(
    entries: Iterable[str], option: str, form: str = "TARGET=SOURCE, such as query=Frage"
) -> dict[str, str]:
    """The targets and sources of a repeated option such as ``--field query=Frage``, by target.

    The same target twice with two sources is an error: one of them would be ignored.

    Args:
        option: the option's name, for errors.
        form: the form of an entry, for errors.
    """
    sources: dict[str, str] = {}
    for entry in entries:
        target, equals, source = entry.partition("=")
        if not equals or not target:
            raise ConfigError(f"{option} {entry}: expected {form}")
        # The same pair twice is harmless.
        if sources.get(target, source) != source:
            raise ConfigError(f"{option} maps {target} twice: to {sources[target]} and to {source}")
        sources[target] = source
    return sources
