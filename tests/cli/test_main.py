"""Usage, help, versions, and what becomes of errors that nobody foresaw."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import typer
import typer.main

from ragbench_cli import renamed
from ragbench_cli.main import COMMANDS, CommandPanel, app
from tests.cli.runs import Ragbench, in_python, lines


def every_command() -> Iterator[list[str]]:
    """The program, each command, each command of a group."""
    program: Any = typer.main.get_command(app)
    yield []
    for name, command in program.commands.items():
        yield [name]
        yield from ([name, inner] for inner in getattr(command.loaded(), "commands", ()))


SPELLED = list(every_command())
GROUPS = [command for command in SPELLED if any(c[:-1] == command for c in SPELLED if c)]


@pytest.mark.parametrize("command", SPELLED, ids=" ".join)
@pytest.mark.parametrize("columns", ["60", "80"])
def test_help_has_an_example_a_text_for_every_option_and_keeps_its_lines(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, command: list[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    done = ragbench(*command, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out == ragbench(*command, "-h").out
    assert "env var" not in done.out
    if command not in GROUPS or not command:
        assert re.search(r"^  Examples?:\n(    ragbench .*\n)+", done.out, re.MULTILINE) is not None
    for line in ragbench(*command, "--help-all").out.splitlines():
        assert not line.startswith("  -") or re.match(r"  -.+?(  +\S|$)", line), line
    if command in GROUPS and columns == "80":  # what each command is for is not cut
        commands = re.split(r"^(?:Start|Commands):\n", done.out, flags=re.MULTILINE)[1]
        assert "..." not in commands


def listed_by_panel(text: str) -> dict[str, list[str]]:
    """The names of the commands in the program's help, by the title of their panel."""
    panels: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if re.fullmatch(r"\S.*:", line):
            title = line.removesuffix(":")
        elif name := re.match(r"  ([a-z][a-z-]+)  +\S", line):
            panels.setdefault(title, []).append(name[1])
    return panels


def test_the_help_lists_commands_in_panels_by_what_a_user_is_about_to_do(
    ragbench: Ragbench,
) -> None:
    assert listed_by_panel(ragbench("--help").out) == {
        "Start": ["init", "doctor", "show"],
        "Evaluate": ["eval", "report", "explain", "cases", "validate", "export", "cache"],
        "Decide": ["compare", "gate", "baseline", "history"],
        "Improve": ["index", "search", "why", "tune-search", "ablate"],
        "Trust": ["label", "judge-card", "calibrate", "fidelity"],
    }


def test_every_command_that_is_not_hidden_has_a_panel(ragbench: Ragbench) -> None:
    program: Any = typer.main.get_command(app)
    visible = {name for name, command in program.commands.items() if not command.hidden}
    panels = listed_by_panel(ragbench("--help").out)
    assert list(panels) == [str(panel) for panel in CommandPanel]
    listed = [name for names in panels.values() for name in names]
    assert sorted(listed) == sorted(visible)


def test_the_summaries_of_all_panels_begin_in_one_column(ragbench: Ragbench) -> None:
    text = ragbench("--help").out
    columns = {
        line.index(command.summary)
        for line in text.splitlines()
        for command in COMMANDS.values()
        if command.summary in line
    }
    assert len(columns) == 1


def test_the_help_of_eval_shows_what_is_common_by_what_it_is_for(ragbench: Ragbench) -> None:
    common, all_of_it = (ragbench("eval", flag).out for flag in ("--help", "--help-all"))
    assert len(common.split()) < 600
    panels = re.findall(r"^(\w[\w ]+):$", common, re.M)
    wanted = "What is evaluated, What is measured, How it is asked, Judging, Output"
    assert ["Arguments", *wanted.split(", ")] == panels
    shown, known = (set(re.findall(r"(?<=[ ,])--[\w-]+", text)) for text in (common, all_of_it))
    assert "--seed" in known - shown
    assert common.endswith(f"\n{len(known - shown)} more: ragbench eval --help-all\n")


MOST_OPTIONS = 16


@pytest.mark.parametrize("command", SPELLED, ids=" ".join)
def test_the_first_screen_of_each_command_shows_what_most_users_need(
    ragbench: Ragbench, command: list[str]
) -> None:
    common, all_of_it = (ragbench(*command, flag).ok().out for flag in ("--help", "--help-all"))

    shown = re.findall(r"^  -.*", common, re.MULTILINE)
    known = re.findall(r"^  -.*", all_of_it, re.MULTILINE)
    assert len(shown) <= MOST_OPTIONS
    hidden = len(known) - len(shown)
    path = " ".join(["ragbench", *command])
    last_line = common.splitlines()[-1]
    assert (last_line == f"{hidden} more: {path} --help-all") == bool(hidden)
    assert "more: ragbench" not in all_of_it


@pytest.mark.parametrize("name", ["fidelity", "tune-search", "ablate", "calibrate", "judge-card"])
def test_the_list_says_when_one_needs_a_command_that_few_need_at_first(name: str) -> None:
    listed = COMMANDS[name]
    assert listed.panel in (CommandPanel.IMPROVE, CommandPanel.TRUST)
    assert listed.summary.startswith(("When ", "Before "))


@pytest.mark.parametrize(
    ("command", "problem", "example"),
    [
        ("eval --rga x", "ragbench eval has no option --rga. Did you mean --rag RAG?", "--rag "),
        ("compare a b --metrik x", "has no option --metrik. Did you mean --metrics LIST?", ""),
        ("eval d --out", "--out needs a value: --out FOLDER.", "--out run"),
        ("eval d --quiet=yes", "--quiet takes no value.", "ragbench eval "),
        ("eval d --matching ids", "not 'ids'. Did you mean 'id'?", "--matching id"),
        ("eval d --top-k many", "--top-k must be a whole number from 1 on, not 'many'", "--top-k"),
        ("eval d --top-k 0", "--top-k must be a whole number from 1 on, not '0'", "--top-k 10"),
        ("eval d --timeout soon", "--timeout must be a number, not 'soon'", "--timeout 10"),
        ("eval", "ragbench eval needs DATASET: File or folder with cases", "ragbench eval "),
        ("eval a b", "unexpected extra argument", "ragbench eval "),
        ("evl d", "ragbench has no command 'evl'. Did you mean 'eval'?", "ragbench eval "),
        ("baseline st", "ragbench baseline has no command 'st'. Did you mean 'set'?", " set run"),
    ],
)
def test_an_error_of_usage_names_the_nearest_option_and_an_example(
    ragbench: Ragbench, command: str, problem: str, example: str
) -> None:
    done = ragbench(*command.split()).refused(problem)

    error, *others = done.err.splitlines()
    assert error.startswith("Error: ")
    (shown,) = [line for line in others if line.startswith("Example: ragbench ")]
    assert example in shown


@pytest.mark.parametrize("command", ["zzz", "--zzz", "eval d --zzz"])
def test_where_no_name_is_near_the_error_says_where_all_are(
    ragbench: Ragbench, command: str
) -> None:
    error = ragbench(*command.split()).refused("zzz").err

    assert "Did you mean" not in error
    assert re.search(r"^All (options|commands): ragbench.* --help", error, re.MULTILINE)


@pytest.mark.parametrize("command", [c for c in SPELLED if c not in GROUPS or not c], ids=" ".join)
def test_an_option_that_is_given_twice_is_joined_or_refused(
    ragbench: Ragbench, command: list[str]
) -> None:
    program: Any = typer.main.get_command(app)
    for name in command:
        program = (program.loaded() if hasattr(program, "loaded") else program).commands[name]
    asked = program.loaded() if hasattr(program, "loaded") else program
    options = [each for each in asked.params if each.param_type_name == "option"]
    for option in options:
        if option.is_flag or option.multiple:
            continue
        given = [word for value in ("1", "2") for word in (option.opts[-1], value)]
        if option.metavar == "LIST":
            needed = ["x"] * sum(each.param_type_name == "argument" for each in asked.params)
            context = asked.make_context("", [*needed, *given], resilient_parsing=True)
            assert context.params[option.name] == "1,2"
        else:
            ragbench(*command, *given).refused(
                f"{max(option.opts, key=len)} takes one", "'1' and '2'"
            )


def test_metrics_of_two_options_are_all_measured(ragbench: Ragbench) -> None:
    lines("cases.jsonl", [{"query": "a", "response": "b", "reference": "b"}])
    asked = ("eval", "cases.jsonl", "--out", "run", "-m", "exact_match")
    ragbench(*asked, "-m", "token_f1", "--limit", "1", "--limit", "1").ok("exact_match", "token_f1")
    found = ragbench(*asked, "-m", "+rouge", "--json").json["summaries"]  # after the usual ones
    assert (found[0]["metric"], found[-1]["metric"]) == ("answer_correct", "rougeL")


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    program: Any = typer.main.get_command(app)
    listed = {name: command.summary for name, command in COMMANDS.items()}
    own = {name: program.commands[name].loaded().help for name in COMMANDS}
    assert {name: text.splitlines()[0] for name, text in own.items()} == listed


def test_without_arguments_the_help_is_shown_and_the_version_when_asked(ragbench: Ragbench) -> None:
    done = ragbench().refused()
    assert "Usage: ragbench" in done.out + done.err
    assert ragbench("--version").ok().out.startswith("ragbench ")


@pytest.mark.parametrize(
    ("raised", "code", "error"),
    [
        (RuntimeError("unforeseen"), 2, "This is a bug in ragbench."),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (EOFError(), 130, "Interrupted.\n"),
        (PermissionError(errno.EACCES, "Permission denied", "x.csv"), 2, "x.csv: Permission den"),
        (OSError("odd"), 2, "Error: odd\n"),
        (MemoryError(), 2, "Error: there is not enough memory for this\n"),
        (SystemExit(1), 2, ""),
        (SystemExit(0), 0, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
    ],
)
def test_an_exit_code_of_1_is_left_for_failed_judgements(
    ragbench: Ragbench,
    raised: BaseException,
    code: int,
    error: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.metadata.version", mock.Mock(side_effect=raised))
    done = ragbench("--version").ends(code).told(error)
    assert ("Traceback" in done.err) == isinstance(raised, RuntimeError)


def test_a_command_runs_where_the_standard_streams_are_closed() -> None:
    closed = "sys.stdin = sys.stdout = sys.stderr = None"
    in_python(f"import sys; {closed}; from ragbench_cli.main import run; run()", "show", "metrics")


def test_what_is_too_large_names_the_option_that_allows_it(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines("cases.jsonl", [{"query": "a" * 2000, "response": "b", "reference": "b"}])
    arguments = ("eval", "cases.jsonl", "--out", "run", "--metrics", "exact_match")
    ragbench("--max-record", "1KB", *arguments).refused(
        "cases.jsonl:1: the line is longer than 1 KB", "--max-record SIZE"
    )
    assert ragbench("--max-record", "1MB", *arguments).code == 0
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "1KB")
    assert ragbench(*arguments, "--fresh").code == 2
    ragbench("--max-file", "much", *arguments).refused("'much' is not a size")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ragbench ev", ["eval"]),
        ("ragbench show metric nD", ["nDCG"]),
        ("ragbench eval x --matching d", ["document_id"]),
        ("ragbench eval x --format sq", ["squad"]),
        ("ragbench eval x -m recall@5,set_f", ["recall@5,set_f1"]),
        ("ragbench export x --to tr", ["trec"]),
        ("ragbench eval --retry", ["--retry-failed"]),
    ],
)
def test_a_shell_completes(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, typed: str, offered: list[str]
) -> None:
    monkeypatch.setenv("_RAGBENCH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    done = ragbench()
    assert (done.code, done.out.split(), done.err) == (0, offered, "")


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [(command, *names) for command, known in renamed.OPTIONS.items() for names in known.items()],
)
def test_an_old_name_sets_the_new_option(
    command: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program: Any = typer.main.get_command(app)
    variable = f"RAGBENCH_{command}_{old[2:]}".upper().replace("-", "_")

    def value(*arguments: str) -> object:
        loaded = program.commands[command].loaded()
        (parameter,) = (each for each in loaded.params if new in each.opts)
        assert not any(old in each.opts for each in loaded.params)
        given = ["1"] * sum(each.param_type_name == "argument" for each in loaded.params)
        prefix = f"RAGBENCH_{command.upper().replace('-', '_')}"
        context = loaded.make_context(
            command, [*given, *arguments], auto_envvar_prefix=prefix, resilient_parsing=True
        )
        return context.params[parameter.name]

    is_flag = old in ("--strict", "--self-test", "--settle")
    some = "distance" if new == "--score-kind" else "2"
    today = value(new) if is_flag else value(new, some)
    assert value(old) if is_flag else value(f"{old}={some}") == value(old, some) == today != value()
    monkeypatch.setenv(variable, "1" if is_flag else some)
    assert value() == today


def test_an_old_command_is_there_and_hidden(ragbench: Ragbench) -> None:
    listed = ragbench("-h").ok().out
    for old, new in renamed.COMMANDS.items():
        assert f"  {new} " in listed and f"  {old} " not in listed
        helps = [ragbench(name, "--help-all").ok().out for name in (old, new)]
        texts = [text.partition("\n\n")[2] for text in helps]
        assert texts[0] == texts[1]
