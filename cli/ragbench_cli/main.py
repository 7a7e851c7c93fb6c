"""The app, and the one place where errors become exit codes.

A command's module is imported when the command is called: ``ragbench --help`` and the completion
of command names need none of them.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn, cast, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from ragbench.core.record import Record
from ragbench.errors import ConfigError, InterruptedRunError, RagbenchError, RagbenchWarning
from ragbench.masking import hide_arguments
from ragbench_cli import console, renamed
from ragbench_cli.console import ExitCode, Invocation
from ragbench_cli.options import RARE, Panel, document, long_name, option, takes_records


class CommandPanel(StrEnum):
    """The panels of ``ragbench --help``, in their order there."""

    START = "Start"
    EVALUATE = "Evaluate"
    DECIDE = "Decide"
    IMPROVE = "Improve"
    TRUST = "Trust"


class ListedCommand(NamedTuple):
    """What the program knows of a command before its module is imported."""

    panel: CommandPanel
    module: str
    """Holds a function ``command`` or, for a group, an ``app``."""
    summary: str
    """The first line of the command's help."""


_START = partial(ListedCommand, CommandPanel.START)
_EVALUATE = partial(ListedCommand, CommandPanel.EVALUATE)
_DECIDE = partial(ListedCommand, CommandPanel.DECIDE)
_IMPROVE = partial(ListedCommand, CommandPanel.IMPROVE)
_TRUST = partial(ListedCommand, CommandPanel.TRUST)

COMMANDS: Mapping[str, ListedCommand] = {
    "init": _START("init", "Write a project to start from."),
    "doctor": _START("doctor", "Check the installation, a RAG, a dataset and models."),
    "show": _START("show", "List metrics, formats, rerankers and what else can be named."),
    "eval": _EVALUATE("evaluate", "Evaluate a RAG on a dataset, or recorded answers."),
    "report": _EVALUATE("report", "Print the report of a stored run."),
    "explain": _EVALUATE("explain", "Show which stage lost the answer."),
    "cases": _EVALUATE("cases", "List cases of a run, by cause, tag or metric."),
    "validate": _EVALUATE("validate", "Check retrieved chunks for the answer."),
    "export": _EVALUATE("export", "Write a run in another tool's format, or to a tracker."),
    "cache": _EVALUATE("cache", "Inspect and prune the cache of model responses."),
    "compare": _DECIDE("compare", "Compare runs of the same cases."),
    "gate": _DECIDE("gate", "Decide whether a run may pass."),
    "baseline": _DECIDE("baseline", "Create, update and show the baseline of the gate."),
    "history": _DECIDE("history", "Show how each metric changed on the main branch."),
    "index": _IMPROVE("index", "Split documents into chunks and store them with vectors."),
    "search": _IMPROVE("search", "Search a store that ragbench or your application has filled."),
    "why": _IMPROVE("why", "Show why a live store does not find the gold."),
    "tune-search": _IMPROVE("tune", "When search is slow: find faster settings that lose little."),
    "ablate": _IMPROVE("ablate", "When you change post-retrieval: compare variants on a run."),
    "label": _TRUST("label", "Label answers of a run, drawn at random."),
    "judge-card": _TRUST("judge_card", "Before you rely on a judge: measure it against people."),
    "calibrate": _TRUST("calibrate", "When a validator is too sure: fit it to your own labels."),
    "fidelity": _TRUST("fidelity", "When questions are made up: check how real ones would rank."),
}
"""The commands by name; within a panel in the order in which a user comes to need them."""


_SHOWS_ALL = "ragbench.help_all"
"""Marks in a command's context that its help was asked for with --help-all."""


class _OptionReader(TyperCommand):
    """Reads options: a repeated one never loses a value, a plain value is read without pydantic.

    Newer releases of Typer ask pydantic about every option, even one that is not on the command
    line, and pydantic takes longer to load than most commands to run.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads a command line.

        A ``--help-all`` in it becomes ``--help`` that shows rare options, too.
        """
        if "--help-all" in self._own_part(args):
            ctx.meta[_SHOWS_ALL] = True
            args = ["--help"]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The parser does not know which command's options it reads: `usage_text` needs the
            # context.
            if getattr(error, "ctx", ctx) is None:
                vars(error)["ctx"] = ctx
            raise

    def _own_part(self, args: list[str]) -> list[str]:
        """The arguments that may be options of this command: all of them; a group has fewer.

        Only in these a ``--help-all`` is meant for this command.
        """
        return args

    def make_parser(self, ctx: Any) -> Any:
        """Typer's parser, which is made to keep repeated values and to read plain ones itself.

        It changes private parts of Typer's parser, which a new release of Typer may rename: the
        tests of the command line show that.
        """
        parser: Any = super().make_parser(ctx)
        for option_parser in (*parser._long_opt.values(), *parser._short_opt.values()):
            # "store" keeps the last value only.
            if option_parser.action == "store":
                option_parser.action = "append"
        for parameter in self.get_params(ctx):
            if "process_value" not in vars(parameter):
                typers_reader = parameter.process_value
                vars(parameter)["process_value"] = partial(_read_value, parameter, typers_reader)
        return parser


def _read_value(parameter: Any, typers_reader: Callable[..., Any], context: Any, value: Any) -> Any:
    """The value of an option in its type.

    Plain values are read here, because newer releases of Typer import pydantic for them, which
    takes long; Typer reads the others.

    Args:
        typers_reader: the method of the parameter that this function takes the place of.
        value: a text, a list of texts for an option that is on the command line, or the default.
    """
    takes_many = parameter.multiple or parameter.nargs == -1
    # Of a default there is no text to read: it has its type already.
    source = context.get_parameter_source(parameter.name)
    if source is not None and source.name == "DEFAULT" and not parameter.required:
        if value is None and takes_many:
            return ()
        return value
    if isinstance(value, list) and not takes_many:
        value = _single_value(parameter, cast("list[str]", value))
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    kind_arguments = get_args(kind)
    # Only texts and paths: their type takes any text, and cannot fail.
    if isinstance(value, list | tuple) and kind_arguments and kind_arguments[0] in (str, Path):
        item_kind = kind_arguments[0]
        return [item_kind(text) for text in cast("Sequence[str]", value)]
    if isinstance(value, str):
        if kind in (str, Path):
            return kind(value)
        is_literal = bool(kind_arguments) and isinstance(kind_arguments[0], str)
        if is_literal:
            # A literal of texts: the choices of the option.
            if value in kind_arguments:
                return value
            from ragbench_cli.usage import choice_text

            raise ConfigError(choice_text(parameter, context, value, kind_arguments))
        if kind in (int, float):
            return _read_number(parameter, typers_reader, context, value)
    # Files, dates and whatever else Typer knows: its own reader has their messages.
    return typers_reader(context, value)


def _read_number(
    parameter: Any, typers_reader: Callable[..., Any], context: Any, value: str
) -> object:
    """The number of an option; the error of a text that is none names the option and an example.

    Typer's own error has no example. Numbers that Typer takes, such as negative ones, are left to
    it.
    """
    minimum = getattr(parameter, "min", None)
    # Plain numbers are read here, as Typer's own reader takes long to import.
    is_plain = value.isascii() and value.isdecimal()
    if parameter.type_descriptor.annotation is int and is_plain and int(value) >= (minimum or 0):
        return int(value)
    try:
        return typers_reader(context, value)
    except Exception as error:
        if not hasattr(error, "format_message"):  # not one of Typer's errors of usage
            raise
        from ragbench_cli.usage import number_text

        raise ConfigError(number_text(parameter, context, value, minimum)) from None


def _single_value(parameter: Any, values: list[str]) -> str:
    """The value of an option that is on the command line several times.

    Lists with commas are joined to one. Other options must have the same value each time: which one
    counts would be a guess.
    """
    if len(values) == 1:
        return values[0]
    if parameter.metavar == "LIST":
        joined = ",".join(value.removeprefix("+") for value in values)
        # A plus adds to the default list: it holds for the whole of the joined one.
        if any(value.startswith("+") for value in values):
            return f"+{joined}"
        return joined
    # The same value twice is harmless, as in a script that adds its options.
    if len(set(values)) > 1:
        quoted = " and ".join(f"'{value}'" for value in values)
        flag = long_name(parameter)
        raise ConfigError(f"{flag} takes one value and is given {quoted}: choose one")
    return values[0]


class _Group(TyperGroup, _OptionReader):
    """Commands under one name."""

    def _own_part(self, args: list[str]) -> list[str]:
        """The arguments before the name of a group's command: the rest are that command's own.

        A ``--help-all`` behind a command's name is for that command.
        """
        return list(takewhile(lambda argument: argument.startswith("-"), args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of a group by its name.

        An unknown name is an error that names the nearest command.
        """
        if self.get_command(ctx, args[0]) is None:
            from ragbench_cli.usage import unknown_command_text

            raise ConfigError(unknown_command_text(args[0], self, ctx))
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the help of a group.

        It has options, commands, and last how many options are not shown.
        """
        hidden_options = _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
        _write_count(hidden_options, ctx, formatter)


class _Program(_Group):
    """All commands, and the options that come before a command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the program's commands in panels into its help, which Typer does not do.

        Panels such as "Start" show a first user where to begin. Plain help is used, as rich's takes
        twice as long to come up.
        """
        name_width = max(map(len, COMMANDS))
        # The page's margins and the gap between the columns take six letters.
        summary_width = formatter.width - 6 - name_width
        rows: dict[str, list[tuple[str, str]]] = {panel: [] for panel in CommandPanel}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if not command.hidden:
                # Padded, so that the summaries of all panels are in one column.
                row = (name.ljust(name_width), command.get_short_help_str(summary_width))
                rows[command.rich_help_panel].append(row)
        for panel, panel_rows in rows.items():
            with formatter.section(panel):
                formatter.write_dl(panel_rows)


class _Command(_OptionReader):
    """A command whose help shows its options in panels; those rarely needed with --help-all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads a command's line, in which options may have the names of earlier releases.

        `renamed.OPTIONS` lists them; they work for one more release.
        """
        for old_flag, new_flag in renamed.OPTIONS.get(str(self.name), {}).items():
            args = [_respelled(argument, old_flag, new_flag) for argument in args]
            self._take_old_variable(ctx, old_flag, new_flag)
        return super().parse_args(ctx, args)

    def _take_old_variable(self, ctx: Any, old_flag: str, new_flag: str) -> None:
        """Makes the environment variable of an option's old name the default of the option.

        The variable of the new name, and the option itself, go before a default.
        """
        suffix = old_flag.removeprefix("--").replace("-", "_").upper()
        value = os.environ.get(f"{ctx.auto_envvar_prefix}_{suffix}")
        if value is None:
            return
        parameter = next(parameter for parameter in self.params if new_flag in parameter.opts)
        # A copy: other contexts may hold the same map.
        defaults: dict[str, Any] = dict(ctx.default_map or {})
        if parameter.multiple:
            # As Typer itself splits a variable for an option that can be repeated.
            defaults[str(parameter.name)] = value.split()
        else:
            defaults[str(parameter.name)] = value
        ctx.default_map = defaults

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes a command's options in panels into its help, and last how many are not shown.

        Rare options are shown by --help-all.
        """
        hidden_options = _write_options(self, ctx, formatter)
        _write_count(hidden_options, ctx, formatter)


def _write_options(command: Any, ctx: Any, formatter: Any) -> int:
    """Writes the options of a command in panels into its help.

    The result is the number of rare options that are left out. A first user of ``eval`` needs a
    dozen of its many options, and would not find them among all.
    """
    document(command)
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        # `--help` has a place of its own, below the panels.
        if record is not None and parameter.name != "help":
            panels.setdefault(_panel_of(parameter), []).append(record)
    hidden_options = 0
    for panel in sorted(panels, key=_panel_position):
        records = panels[panel]
        # `--help-all` sets the mark in the context.
        if panel.endswith(RARE) and _SHOWS_ALL not in ctx.meta:
            hidden_options += len(records)
            continue
        with formatter.section(panel):
            formatter.write_dl(records)
    return hidden_options


def _write_count(hidden_options: int, ctx: Any, formatter: Any) -> None:
    """Writes as the last line of a help how many rare options it leaves out.

    Args:
        hidden_options: how many; nothing is written for 0.
    """
    if hidden_options:
        formatter.write_paragraph()
        formatter.write_text(f"{hidden_options} more: {ctx.command_path} --help-all")


def _respelled(argument: str, old_flag: str, new_flag: str) -> str:
    """An argument of the command line, under an option's new name where it has the old one.

    Both forms count: ``--old value`` and ``--old=value``.
    """
    flag, equals, value = argument.partition("=")
    if flag == old_flag:
        return f"{new_flag}{equals}{value}"
    return argument


def _panel_of(parameter: Any) -> str:
    """The panel of the help that an option is shown in.

    A panel groups options under a heading; arguments have one of their own.
    """
    # Arguments are declared without a panel, and share one.
    if parameter.param_type_name == "argument":
        return Panel.ARGUMENTS
    panel = getattr(parameter, "rich_help_panel", None) or Panel.OPTIONS
    # A rare option without a panel: rare ones of the common panel.
    if panel == RARE:
        return f"{Panel.OPTIONS}{RARE}"
    return str(panel)


def _panel_position(panel: str) -> tuple[int, str]:
    """The sort key of a panel in a help.

    Panels come in the order of `Panel`, each before its rarely needed options.
    """
    titles = [str(title) for title in Panel]
    return titles.index(panel.removesuffix(RARE)), panel


class _LazyCommand(TyperCommand):
    """Stands for a command in lists, and becomes it when it is called.

    The modules of all commands together take longer to import than most commands to run.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Typer's call when this command is on the command line.

        The command's own module, which is imported now, answers it.
        """
        return self.loaded().make_context(info_name, args, parent, **extra)

    def loaded(self) -> Any:
        """The command behind this stand-in, from its module, which is imported now.

        ``ragbench --help`` needs no module, and all together take longer to import than most
        commands to run. Options get environment variables by the name that the user typed.
        """
        from importlib import import_module

        typed_name = str(self.name)
        name = renamed.COMMANDS.get(typed_name, typed_name)
        module = import_module(f"ragbench_cli.commands.{COMMANDS[name].module}")
        variable_prefix = f"RAGBENCH_{typed_name.upper().replace('-', '_')}"
        settings = {"auto_envvar_prefix": variable_prefix}
        # Typer makes commands only for a program: this one holds nothing but the command.
        program = typer.Typer(name=name, rich_markup_mode=None, add_completion=False)
        if hasattr(module, "app"):
            program.add_typer(module.app, name=name, context_settings=settings)
            outer: Any = typer.main.get_command(program)
            group = outer.commands[name]
            # typer.Typer has no setting for the classes of a group and of its commands.
            group.__class__ = _Group
            for subcommand in group.commands.values():
                subcommand.__class__ = _Command
            return group
        program.command(name, cls=_Command, context_settings=settings)(module.command)
        return typer.main.get_command(program)


# Plain help: rich's takes twice as long to come up.
app = typer.Typer(
    name="ragbench",
    cls=_Program,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _listed in COMMANDS.items():
    app.command(_name, help=_listed.summary, rich_help_panel=_listed.panel, cls=_LazyCommand)(
        lambda: None
    )
for _old_name in renamed.COMMANDS:
    app.command(_old_name, hidden=True, cls=_LazyCommand)(lambda: None)


def _set_limit(context: typer.Context, variable: str, size: str) -> None:
    """Limits the size of inputs by an environment variable, until the command's context closes.

    Workers read the limit from the environment. It is put back afterwards, for programs that run
    several commands in one process, as tests do.
    """
    from ragbench.core.sizes import size_of

    size_of(size)  # refuses a text that is no size
    before = os.environ.get(variable)
    os.environ[variable] = size
    context.call_on_close(partial(_restore_variable, variable, before))


def _restore_variable(variable: str, before: str | None) -> None:
    """Puts an environment variable back as it was before a command: unset where that is None.

    Programs such as tests run several commands in one process.
    """
    if before is None:
        del os.environ[variable]
    else:
        os.environ[variable] = before


def _print_version(is_set: bool) -> None:
    """Prints the version of ragbench and ends the command, where ``--version`` is set.

    Typer calls it as soon as it reads the option, before a missing command is an error.
    """
    if not is_set:
        return
    # Imported here: the look into the metadata takes a moment at every start.
    from importlib.metadata import PackageNotFoundError, version

    try:
        typer.echo(f"ragbench {version('ragbench')}")
    except PackageNotFoundError:
        typer.echo("ragbench (run from its source, not installed)")
    raise typer.Exit


class ProgramOptions(Record):
    """Options that come before the name of a command."""

    traceback: Annotated[bool, option("--traceback", envvar="RAGBENCH_TRACEBACK")] = False
    """Show where in the code an error came from."""
    max_record: Annotated[str, option("SIZE", rare=True, envvar="RAGBENCH_MAX_RECORD")] = ""
    """Longest line, cell, answer over HTTP or other record that is read. [default: 64MB]"""
    max_file: Annotated[str, option("SIZE", rare=True, envvar="RAGBENCH_MAX_FILE")] = ""
    """Largest file that is held whole, such as JSON, and that a packed one may unpack to. [default:
    1GB]"""
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = (
        False
    )
    """Print the version."""


@app.callback()
@takes_records
def _program(context: typer.Context, options: ProgramOptions) -> None:
    """Evaluate a RAG system: its retrieval, its answers, and how far to trust the numbers.

    \b
    Examples:
      ragbench eval datasets/pellorin --rag baseline
      ragbench eval cases.jsonl --rag my_module:MyRAG --out run
      ragbench report run
      ragbench gate run --baseline auto

    Each option is an environment variable too: --batch-size of eval is RAGBENCH_EVAL_BATCH_SIZE.
    One that is given twice is joined where it takes a LIST, and else refused.

    \b
    Exit codes:
      0    done
      1    done; a check failed
      2    cannot run: bad usage, bad input, something missing, or a bug
      3    inconclusive: not enough evidence
      130  interrupted; the same command continues
      141  whoever read the output went away, as head does
    """
    # Tests call the program without an invocation.
    if isinstance(context.obj, Invocation):
        context.obj.traceback = options.traceback
    if options.max_record:
        _set_limit(context, "RAGBENCH_MAX_RECORD", options.max_record)
    if options.max_file:
        _set_limit(context, "RAGBENCH_MAX_FILE", options.max_file)


def main(arguments: Sequence[str]) -> int:
    """Runs a command and gives its exit code: no exception leaves it.

    Whatever goes wrong is reported on standard error, where the user can mend it in a line. Tests
    and other programs may call it repeatedly.
    """
    invocation = Invocation(arguments=tuple(arguments))
    with console.guarded_streams():
        warnings.showwarning = partial(_show_warning, warnings.showwarning)
        hide_arguments(arguments)
        try:
            code = app([*arguments], prog_name="ragbench", standalone_mode=False, obj=invocation)
            sys.stdout.flush()
        except BaseException as error:  # noqa: BLE001  # exit code 1 would mean a failed judgement
            try:
                return _exit_code_of(error, invocation)
            except BrokenPipeError as no_reader:  # while the message is written
                return _exit_code_of(no_reader, invocation)
            except (OSError, ValueError):  # standard error is closed: nobody can be told
                _drop_output()
                return ExitCode.CANNOT_RUN
        if code == ExitCode.INTERRUPTED:  # how Typer passes a KeyboardInterrupt on
            console.say("Interrupted.")
        return code if isinstance(code, int) else ExitCode.PASSED


def _show_warning(
    show_pythons_way: Callable[..., None],
    message: Warning | str,
    category: type[Warning],
    *place: Any,
) -> None:
    """Shows a warning: one of ragbench's in a line, any other as Python shows it.

    It takes the place of ``warnings.showwarning``, whose arguments it gets behind the first.
    """
    if issubclass(category, RagbenchWarning):
        console.say(f"Warning: {message}.")
    else:
        show_pythons_way(message, category, *place)


def _exit_code_of(error: BaseException, invocation: Invocation) -> ExitCode:
    """Reports the exception that ended a command, and gives the exit code for it.

    Where the user can mend the problem it is one line; a bug shows its traceback. The codes are
    documented in the help: scripts rely on them.
    """
    # Typer makes a SystemExit of a broken pipe.
    cause: BaseException | None = error
    if isinstance(error, SystemExit):
        cause = error.__context__
    if isinstance(cause, BrokenPipeError):
        _drop_output()
        return ExitCode.NOT_READ
    if isinstance(error, SystemExit):  # Typer's, after the completion of a word for a shell
        return ExitCode.CANNOT_RUN if error.code else ExitCode.PASSED
    if isinstance(error, (KeyboardInterrupt, InterruptedRunError, typer.Abort)):
        console.say(f"Interrupted: {error}" if str(error) else "Interrupted.")
        return ExitCode.INTERRUPTED
    show = getattr(error, "show", None)
    if callable(show):  # bad usage: Typer's releases have no public base class for it in common
        if type(error).__name__ == "NoArgsIsHelpError":
            show(file=sys.stderr)  # the help: nothing is wrong with a name or a value
            return ExitCode.CANNOT_RUN
        from ragbench_cli.usage import usage_text

        console.say(f"Error: {usage_text(error)}")
        return ExitCode.CANNOT_RUN
    if isinstance(error, (RagbenchError, OSError, MemoryError)):
        if invocation.traceback:
            _print_traceback(error)
        console.say(f"Error: {_error_text(error)}")
        if not invocation.traceback and _is_of_the_user(error.__cause__):
            console.say(f"Where: {invocation.again(first='--traceback')}")
        return ExitCode.CANNOT_RUN
    _print_traceback(error)
    console.say("This is a bug in ragbench. Please report it with the lines above.")
    return ExitCode.CANNOT_RUN


def _drop_output() -> None:
    """Sends the rest of both output streams nowhere.

    Python would else flush into a closed pipe at its end, and print an error.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError):  # the stream is not a file, or not an open one
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _error_text(error: BaseException) -> str:
    """The message of an error for users, without what only the code knows.

    An error of the system has its file and reason, without the number.
    """
    if isinstance(error, OSError) and error.strerror:
        # The error's own text begins with its number, which says nothing to a user.
        if error.filename:
            return f"{error.filename}: {error.strerror}"
        return error.strerror
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    return str(error) or type(error).__name__


def _is_of_the_user(cause: BaseException | None) -> bool:
    """Whether an exception came out of the user's own code, whose lines are worth seeing.

    Then the report names ``--traceback``, which shows them.
    """
    if cause is None:
        return False
    import traceback

    # The standard library is on the way of every error, and is not the user's.
    known_packages = {"ragbench", "ragbench_cli", *sys.stdlib_module_names}
    for frame, _ in traceback.walk_tb(cause.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in known_packages:
            return True
    return False


def _print_traceback(error: BaseException) -> None:
    """Prints the traceback of an error on standard error, with keys masked.

    Keys can be in the message of any exception; `console.say` masks them.
    """
    import traceback

    lines = traceback.format_exception(error)
    console.say("".join(lines).rstrip())


def run() -> None:
    """The program ``ragbench``: readies the streams of the process and runs a command.

    Collection of garbage is tuned for many small records, which makes a run a tenth faster. The
    process ends with the command's code even where a user's threads hang on.
    """
    for name in ("stdin", "stdout", "stderr"):
        # A closed stream's number would go to the next file that is opened.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a letter is not an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Many small records are made, none in circles: looking for such takes a tenth of a run. Any
    # numbers far above Python's own would do.
    gc.set_threshold(250_000, 20, 50)
    code = main(sys.argv[1:])
    gc.freeze()  # what is left ends with the process: looking through it takes a while
    _end_in_time(code)
    _end_with(code)


_LAST_SECONDS = 3.0
"""That threads and processes have which the user's code has left behind."""


def _end_in_time(code: int) -> None:
    """Ends the process although threads or processes of the user's code go on.

    Python waits for threads that are no daemons, for executors and for processes of its own kind,
    however long they take.
    """
    timer = threading.Timer(_LAST_SECONDS, _kill_and_exit, [code])
    timer.daemon = True
    timer.start()


def _kill_and_exit(code: int) -> None:
    """Kills the processes that a user's code has left behind, and ends this one with a code.

    It is the last way to end: a command that is done must not hang on for them.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None:
        # Child processes hold the pipes of this process open, so that a reader would wait for them.
        for child in multiprocessing.active_children():
            child.kill()
    with suppress(OSError, ValueError):  # nobody reads any more
        console.say(
            "Warning: threads or processes of the system went on after the end: "
            f"they are stopped after {_LAST_SECONDS:g} s"
        )
    os._exit(code)


def _end_with(code: int) -> NoReturn:
    """Ends the process with the command's exit code, whatever else is done at its end.

    A library may register ``os._exit(0)`` for the end of the process, or call it where an object
    is deleted: a gate that fails would pass.
    """
    process = os.getpid()
    exit_at_once = os._exit
    os._exit = partial(_exit_with_code, exit_at_once, process, code)
    raise SystemExit(code)  # sys.exit may be replaced, too


def _exit_with_code(
    exit_at_once: Callable[[int], NoReturn], process: int, code: int, status: int
) -> NoReturn:
    """Takes the place of ``os._exit`` at the end of a command: its exit code stays the command's.

    A gate that fails would pass if a library ended the process with 0.

    Args:
        exit_at_once: the function itself.
        process: the number of the command's process; one that was forked keeps its own code.
        code: with which the command ends.
        status: with which a library wants to end the process.
    """
    if os.getpid() == process:
        status = code
    exit_at_once(status)
