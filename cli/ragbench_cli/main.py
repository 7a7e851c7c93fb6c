"""The app, and the one place where errors become exit codes.

A command's module is imported when the command is called: ``ragbench --help`` and the completion
of command names need none of them.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from ragbench.core.record import Record
from ragbench.errors import ConfigError, InterruptedRunError, RagbenchError, RagbenchWarning
from ragbench.masking import hide_arguments
from ragbench_cli import console, renamed
from ragbench_cli.console import ExitCode, Invocation
from ragbench_cli.options import RARE, Panel, document, option, takes_records

COMMANDS = {
    "eval": ("evaluate", "Evaluate a RAG on a dataset, or recorded answers."),
    "validate": ("validate", "Check retrieved chunks for the answer."),
    "calibrate": ("calibrate", "Fit a validator to your own labels."),
    "report": ("report", "Print the report of a stored run."),
    "explain": ("explain", "Show which stage lost the answer."),
    "cases": ("cases", "List cases of a run, by cause, tag or metric."),
    "gate": ("gate", "Decide whether a run may pass."),
    "compare": ("compare", "Compare runs of the same cases."),
    "export": ("export", "Write a stored run in another tool's format."),
    "ablate": ("ablate", "Compare variants of post-retrieval on a stored run."),
    "index": ("index", "Split documents into chunks and store them with vectors."),
    "search": ("search", "Search a store that ragbench or your application has filled."),
    "tune-search": ("tune", "Find the fastest search settings within a quality margin."),
    "why": ("why", "Show why a live store does not find the gold."),
    "label": ("label", "Label answers of a run, drawn at random."),
    "judge-card": ("judge_card", "Measure a judge against human labels."),
    "fidelity": ("fidelity", "Measure how far made-up questions rank as real ones."),
    "init": ("init", "Write a project to start from."),
    "doctor": ("doctor", "Check the installation, a RAG, a dataset and models."),
    "baseline": ("baseline", "Create, update and show the baseline of the gate."),
    "history": ("history", "Show how each metric changed on the main branch."),
    "cache": ("cache", "Inspect and prune the cache of model responses."),
    "show": ("show", "List metrics, formats, rerankers and what else can be named."),
}
"""The module of each command, which holds a function ``command`` or, for a group, an ``app``; and
the first line of its help."""


class _Reading(TyperCommand):
    """Reads options: what is given twice is never lost, what is plain is read without pydantic.

    Newer releases of Typer ask pydantic for each option, given or not, and it takes longer to load
    than most commands to run.
    """

    def make_parser(self, ctx: Any) -> Any:
        parser: Any = super().make_parser(ctx)
        for each in (*parser._long_opt.values(), *parser._short_opt.values()):
            if each.action == "store":  # which keeps the last value alone
                each.action = "append"
        for parameter in self.get_params(ctx):
            if "process_value" not in vars(parameter):
                read = partial(_value, parameter, parameter.process_value)
                vars(parameter)["process_value"] = read
        return parser


def _value(parameter: Any, typers: Callable[..., Any], context: Any, value: Any) -> Any:
    """What an option stands for; what is no plain value is Typer's, errors included."""
    takes_many = parameter.multiple or parameter.nargs == -1
    source = context.get_parameter_source(parameter.name)
    if source is not None and source.name == "DEFAULT" and not parameter.required:
        return () if value is None and takes_many else value
    if isinstance(value, list) and not takes_many:
        given = cast("list[str]", value)
        value = given[0] if len(given) == 1 else _once(parameter, given)
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    parts = get_args(kind)
    if isinstance(value, list | tuple) and parts and parts[0] in (str, Path):
        return [parts[0](each) for each in cast("Sequence[str]", value)]
    if isinstance(value, str):
        if kind in (str, Path):
            return kind(value)
        if parts and isinstance(parts[0], str):  # of a Literal
            if value in parts:
                return value
            raise ConfigError(
                f"{_flag(parameter)} must be one of {', '.join(parts)}, not '{value}'"
            )
        least = getattr(parameter, "min", None) or 0
        if kind is int and value.isascii() and value.isdecimal() and int(value) >= least:
            return int(value)
    return typers(context, value)


def _once(parameter: Any, values: list[str]) -> str:
    """The one value of an option, however often it was given; lists with commas are joined."""
    if parameter.metavar == "LIST":
        plus = "+" * any(each.startswith("+") for each in values)
        return plus + ",".join(each.removeprefix("+") for each in values)
    if len({*values}) > 1:
        given = " and ".join(f"'{each}'" for each in values)
        raise ConfigError(f"{_flag(parameter)} takes one value and is given {given}: choose one")
    return values[0]


def _flag(parameter: Any) -> str:
    return str(max(parameter.opts, key=len))


_SHOWS_ALL = "ragbench.help_all"


class _Program(TyperGroup, _Reading):
    """All commands, and the options that stand before one."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        document(self)
        super().format_options(ctx, formatter)


class _Command(_Reading):
    """A command whose help shows its options in panels; those rarely needed with --help-all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help-all" in args:
            ctx.meta[_SHOWS_ALL] = True
            args = ["--help"]
        for old, new in renamed.OPTIONS.get(str(self.name), {}).items():
            args = [
                f"{new}{each[len(old) :]}" if each.split("=")[0] == old else each for each in args
            ]
            value = os.environ.get(f"{ctx.auto_envvar_prefix}_{old[2:].replace('-', '_').upper()}")
            if value is not None:
                named = next(each for each in self.params if new in each.opts)
                known: dict[str, Any] = ctx.default_map or {}
                given = value.split() if named.multiple else value
                ctx.default_map = {**known, str(named.name): given}
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        document(self)
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.name != "help":
                is_argument = parameter.param_type_name == "argument"
                panel = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None)
                panel = panel or "Options"
                panels.setdefault(f"Options{panel}" if panel == RARE else panel, []).append(record)
        hidden = 0
        order = list(map(str, Panel))
        places = {name: (order.index(name.removesuffix(RARE)), name) for name in panels}
        for panel in sorted(panels, key=places.__getitem__):
            records = panels[panel]
            if panel.endswith(RARE) and _SHOWS_ALL not in ctx.meta:
                hidden += len(records)
                continue
            with formatter.section(panel):
                formatter.write_dl(records)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{hidden} more options: {ctx.command_path} --help-all")


class _LazyCommand(TyperCommand):
    """Stands for a command in lists, and becomes it when it is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return self.loaded().make_context(info_name, args, parent, **extra)

    def loaded(self) -> Any:
        from importlib import import_module

        typed = str(self.name)
        name = renamed.COMMANDS.get(typed, typed)
        module = import_module(f"ragbench_cli.commands.{COMMANDS[name][0]}")
        settings = {"auto_envvar_prefix": f"RAGBENCH_{typed.upper().replace('-', '_')}"}
        alone = typer.Typer(name=name, rich_markup_mode=None, add_completion=False)
        if hasattr(module, "app"):
            alone.add_typer(module.app, name=name, context_settings=settings)
            group: Any = typer.main.get_command(alone)
            for each in group.commands[name].commands.values():
                each.__class__ = _Command  # typer.Typer has no setting for that of its commands
            return group.commands[name]
        alone.command(name, cls=_Command, context_settings=settings)(module.command)
        return typer.main.get_command(alone)


# Plain help: rich's takes twice as long to come up.
app = typer.Typer(
    name="ragbench",
    cls=_Program,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, (_, _line) in COMMANDS.items():
    app.command(_name, help=_line, cls=_LazyCommand)(lambda: None)
for _name in renamed.COMMANDS:
    app.command(_name, hidden=True, cls=_LazyCommand)(lambda: None)


def _limit(context: typer.Context, variable: str, size: str) -> None:
    """Sets a limit of what is read, for this command and the processes that it starts."""
    from ragbench.io.limits import size_of

    size_of(size)
    before = os.environ.get(variable)
    os.environ[variable] = size

    def restore() -> None:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before

    context.call_on_close(restore)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"ragbench {version('ragbench')}")
        except PackageNotFoundError:
            typer.echo("ragbench (run from its source, not installed)")
        raise typer.Exit


class Given(Record):
    traceback: Annotated[bool, option("--traceback", envvar="RAGBENCH_TRACEBACK")] = False
    """Show where in the code an error came from."""
    max_record: Annotated[str, option("SIZE", envvar="RAGBENCH_MAX_RECORD")] = ""
    """Longest line, cell or other record that is read. [default: 64MB]"""
    max_file: Annotated[str, option("SIZE", envvar="RAGBENCH_MAX_FILE")] = ""
    """Largest file that is held whole, such as JSON, and that a packed one may unpack to. [default:
    1GB]"""
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = (
        False
    )
    """Print the version."""


@app.callback()
@takes_records
def _options(context: typer.Context, given: Given) -> None:
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
    """
    if isinstance(context.obj, Invocation):
        context.obj.traceback = given.traceback
    if given.max_record:
        _limit(context, "RAGBENCH_MAX_RECORD", given.max_record)
    if given.max_file:
        _limit(context, "RAGBENCH_MAX_FILE", given.max_file)


def main(arguments: Sequence[str]) -> int:
    invocation = Invocation(arguments=tuple(arguments))
    with console.guarded_streams():
        warnings.showwarning = partial(_show_warning, warnings.showwarning)
        hide_arguments(arguments)
        try:
            code = app([*arguments], prog_name="ragbench", standalone_mode=False, obj=invocation)
            sys.stdout.flush()
        except BaseException as error:  # noqa: BLE001  # exit code 1 would mean a failed judgement
            return _code_of(error, invocation)
        if code == ExitCode.INTERRUPTED:  # how Typer passes a KeyboardInterrupt on
            console.say("Interrupted.")
        return code if isinstance(code, int) else ExitCode.PASSED


def _show_warning(
    before: Callable[..., None], message: Warning | str, category: type[Warning], *rest: Any
) -> None:
    if issubclass(category, RagbenchWarning):
        console.say(f"Warning: {message}.")
    else:
        before(message, category, *rest)


def _code_of(error: BaseException, invocation: Invocation) -> ExitCode:
    """Reports what went wrong, in one line where the user can fix it."""
    if isinstance(error, BrokenPipeError):  # the reader of our output went away
        # Keeps the interpreter from flushing into the closed pipe when it ends.
        with suppress(io.UnsupportedOperation):  # it is not a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CANNOT_RUN
    if isinstance(error, SystemExit):
        return ExitCode.CANNOT_RUN if error.code else ExitCode.PASSED
    if isinstance(error, (KeyboardInterrupt, InterruptedRunError, typer.Abort)):
        console.say(f"Interrupted: {error}" if str(error) else "Interrupted.")
        return ExitCode.INTERRUPTED
    show = getattr(error, "show", None)
    if callable(show):  # bad usage: Typer's releases have no public base class for it in common
        show(file=sys.stderr)
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


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    return str(error) or type(error).__name__


def _is_of_the_user(cause: BaseException | None) -> bool:
    """Whether an exception came out of the user's own code, whose lines are worth seeing."""
    if cause is None:
        return False
    import traceback

    names = [
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(cause.__traceback__)
    ]
    ours = ("ragbench", "ragbench_cli", *sys.stdlib_module_names)
    return any(str(name).partition(".")[0] not in ours for name in names)


def _print_traceback(error: BaseException) -> None:
    import traceback

    console.say("".join(traceback.format_exception(error)).rstrip())


def run() -> None:
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: a file opened later would take its number
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a letter is not an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Many small records are made, none in circles: looking for such takes a tenth of a run.
    gc.set_threshold(250_000, 20, 50)
    code = main(sys.argv[1:])
    gc.freeze()  # what is left ends with the process: looking through it takes a while
    sys.exit(code)
