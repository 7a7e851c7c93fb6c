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
        for subcommand in getattr(command.loaded(), "commands", ()):
            yield [name, subcommand]


ALL_COMMANDS = list(every_command())
# The program itself, whose path is empty, is the group of all.
GROUPS = [path[:-1] for path in ALL_COMMANDS if path]
NAMED_GROUPS = [path for path in ALL_COMMANDS if path and path in GROUPS]
PROGRAM_AND_COMMANDS = [path for path in ALL_COMMANDS if path not in NAMED_GROUPS]

EVERY_COMMAND = pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
TERMINALS = pytest.mark.parametrize("columns", ["60", "80"])


def loaded_command(path: list[str]) -> Any:
    """The command with its options, whose module is imported when it is called."""
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
        if hasattr(command, "loaded"):
            command = command.loaded()
    return command


def count_of_arguments(command: Any) -> int:
    return sum(parameter.param_type_name == "argument" for parameter in command.params)


# --- help


@EVERY_COMMAND
@TERMINALS
def test_help_is_printed_by_both_of_its_options(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, command: list[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    done = ragbench(*command, "--help")

    assert done.code == 0
    assert done.err == ""
    assert done.out == ragbench(*command, "-h").out
    assert "env var" not in done.out


@pytest.mark.parametrize("command", PROGRAM_AND_COMMANDS, ids=" ".join)
@TERMINALS
def test_help_has_an_example_on_lines_of_its_own(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, command: list[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    text = ragbench(*command, "--help").out

    assert re.search(r"^  Examples?:\n(    ragbench .*\n)+", text, re.MULTILINE) is not None


@EVERY_COMMAND
@TERMINALS
def test_help_has_a_text_for_every_option(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, command: list[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    text = ragbench(*command, "--help-all").out

    options = re.findall(r"^  -.*", text, re.MULTILINE)
    # An option that is longer than its column has its text on the next line.
    without_text = [line for line in options if not re.match(r"  -.+?(  +\S|$)", line)]
    assert without_text == []


@pytest.mark.parametrize("group", [[], *NAMED_GROUPS], ids=" ".join)
def test_the_help_of_a_group_cuts_no_summary_of_its_commands(
    ragbench: Ragbench, group: list[str]
) -> None:
    text = ragbench(*group, "--help").out

    listed = re.split(r"^(?:Start|Commands):\n", text, flags=re.MULTILINE)[1]
    assert "..." not in listed


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
    visible = [name for name, command in program.commands.items() if not command.hidden]

    panels = listed_by_panel(ragbench("--help").out)

    assert list(panels) == [str(panel) for panel in CommandPanel]
    listed: list[str] = []
    for names in panels.values():
        listed += names
    assert sorted(listed) == sorted(visible)


def test_the_summaries_of_all_panels_begin_in_one_column(ragbench: Ragbench) -> None:
    text = ragbench("--help").out

    columns: set[int] = set()
    for command in COMMANDS.values():
        (line,) = [line for line in text.splitlines() if command.summary in line]
        columns.add(line.index(command.summary))
    assert len(columns) == 1


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<=[ ,])--[\w-]+", text))


def test_the_help_of_eval_shows_what_is_common_by_what_it_is_for(ragbench: Ragbench) -> None:
    text = ragbench("eval", "--help").out

    assert len(text.split()) < 600
    assert re.findall(r"^(\w[\w ]+):$", text, re.MULTILINE) == [
        "Arguments",
        "What is evaluated",
        "What is measured",
        "How it is asked",
        "Judging",
        "Output",
    ]


def test_the_help_of_eval_counts_the_options_that_it_hides(ragbench: Ragbench) -> None:
    common = ragbench("eval", "--help").out
    complete = ragbench("eval", "--help-all").out

    hidden = options_in(complete) - options_in(common)
    assert "--seed" in hidden
    assert common.endswith(f"\n{len(hidden)} more: ragbench eval --help-all\n")


MOST_OPTIONS = 16


@EVERY_COMMAND
def test_the_first_screen_of_each_command_shows_what_most_users_need(
    ragbench: Ragbench, command: list[str]
) -> None:
    common = ragbench(*command, "--help").ok().out
    complete = ragbench(*command, "--help-all").ok().out

    shown = re.findall(r"^  -.*", common, re.MULTILINE)
    options = re.findall(r"^  -.*", complete, re.MULTILINE)
    assert len(shown) <= MOST_OPTIONS
    hidden = len(options) - len(shown)
    path = " ".join(["ragbench", *command])
    last_line = common.splitlines()[-1]
    assert (last_line == f"{hidden} more: {path} --help-all") == bool(hidden)
    assert "more: ragbench" not in complete


@pytest.mark.parametrize("name", ["fidelity", "tune-search", "ablate", "calibrate", "judge-card"])
def test_the_list_says_when_one_needs_a_command_that_few_need_at_first(name: str) -> None:
    listed = COMMANDS[name]
    assert listed.panel in (CommandPanel.IMPROVE, CommandPanel.TRUST)
    assert listed.summary.startswith(("When ", "Before "))


# --- errors of usage


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

    lines_of_error = done.err.splitlines()
    assert lines_of_error[0].startswith("Error: ")
    (shown,) = [line for line in lines_of_error if line.startswith("Example: ragbench ")]
    assert example in shown


@pytest.mark.parametrize("command", ["zzz", "--zzz", "eval d --zzz"])
def test_where_no_name_is_near_the_error_says_where_all_are(
    ragbench: Ragbench, command: str
) -> None:
    error = ragbench(*command.split()).refused("zzz").err

    assert "Did you mean" not in error
    assert re.search(r"^All (options|commands): ragbench.* --help", error, re.MULTILINE)


@pytest.mark.parametrize("command", PROGRAM_AND_COMMANDS, ids=" ".join)
def test_a_list_that_is_given_in_two_options_is_joined(command: list[str]) -> None:
    loaded = loaded_command(command)
    arguments = ["x"] * count_of_arguments(loaded)

    for option in single_options(loaded):
        if option.metavar == "LIST":
            name = option.opts[-1]
            twice = [name, "1", name, "2"]
            context = loaded.make_context("", [*arguments, *twice], resilient_parsing=True)
            assert context.params[option.name] == "1,2"


@pytest.mark.parametrize("command", PROGRAM_AND_COMMANDS, ids=" ".join)
def test_an_option_of_one_value_that_is_given_twice_is_refused(
    ragbench: Ragbench, command: list[str]
) -> None:
    for option in single_options(loaded_command(command)):
        if option.metavar != "LIST":
            name = option.opts[-1]
            longest_name = max(option.opts, key=len)
            done = ragbench(*command, name, "1", name, "2")
            done.refused(f"{longest_name} takes one", "'1' and '2'")


def single_options(command: Any) -> list[Any]:
    """The command's options that take a value and are no list of typer's."""
    return [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        and not parameter.is_flag
        and not parameter.multiple
    ]


@pytest.fixture
def one_case() -> tuple[str, ...]:
    """The command that evaluates a case with an answer and a reference."""
    lines("cases.jsonl", [{"query": "a", "response": "b", "reference": "b"}])
    return ("eval", "cases.jsonl", "--out", "run")


def test_metrics_of_two_options_are_all_measured(
    ragbench: Ragbench, one_case: tuple[str, ...]
) -> None:
    done = ragbench(*one_case, "-m", "exact_match", "-m", "token_f1")

    done.ok("exact_match", "token_f1")


def test_an_option_that_is_given_twice_with_the_same_value_counts_once(
    ragbench: Ragbench, one_case: tuple[str, ...]
) -> None:
    done = ragbench(*one_case, "-m", "exact_match", "--limit", "1", "--limit", "1")

    done.ok("exact_match")


def test_metrics_with_a_plus_come_after_the_usual_ones(
    ragbench: Ragbench, one_case: tuple[str, ...]
) -> None:
    done = ragbench(*one_case, "-m", "exact_match", "-m", "+rouge", "--json")

    metrics = [summary["metric"] for summary in done.json["summaries"]]
    assert metrics[0] == "answer_correct"
    assert metrics[-1] == "rougeL"


# --- the program itself


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    summary = loaded_command([name]).help.splitlines()[0]

    assert summary == COMMANDS[name].summary


def test_without_arguments_the_help_is_shown(ragbench: Ragbench) -> None:
    done = ragbench().refused()

    assert "Usage: ragbench" in done.out + done.err


def test_the_version_is_shown(ragbench: Ragbench) -> None:
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

    done = ragbench("--version")

    done.ends(code).told(error)
    is_bug = isinstance(raised, RuntimeError)
    assert ("Traceback" in done.err) == is_bug


def test_a_command_runs_where_the_standard_streams_are_closed() -> None:
    code = """
import sys
sys.stdin = sys.stdout = sys.stderr = None
from ragbench_cli.main import run
run()
"""

    done = in_python(code, "show", "metrics")

    assert done.returncode == 0


@pytest.fixture
def case_of_two_kilobytes() -> tuple[str, ...]:
    """The command that evaluates it."""
    lines("cases.jsonl", [{"query": "a" * 2000, "response": "b", "reference": "b"}])
    return ("eval", "cases.jsonl", "--out", "run", "--metrics", "exact_match")


def test_a_record_that_is_too_large_names_the_option_that_allows_it(
    ragbench: Ragbench, case_of_two_kilobytes: tuple[str, ...]
) -> None:
    done = ragbench("--max-record", "1KB", *case_of_two_kilobytes)

    done.refused("cases.jsonl:1: the line is longer than 1 KB", "--max-record SIZE")


def test_a_record_within_the_allowed_size_is_read(
    ragbench: Ragbench, case_of_two_kilobytes: tuple[str, ...]
) -> None:
    ragbench("--max-record", "1MB", *case_of_two_kilobytes).ok()


def test_the_allowed_size_may_come_from_the_environment(
    ragbench: Ragbench, case_of_two_kilobytes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_MAX_RECORD", "1KB")

    ragbench(*case_of_two_kilobytes).refused("the line is longer than 1 KB")


def test_a_size_that_is_none_is_refused(
    ragbench: Ragbench, case_of_two_kilobytes: tuple[str, ...]
) -> None:
    ragbench("--max-file", "much", *case_of_two_kilobytes).refused("'much' is not a size")


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
    number_of_word = len(typed.split()) - 1
    monkeypatch.setenv("COMP_CWORD", str(number_of_word))

    done = ragbench()

    assert done.code == 0
    assert done.out.split() == offered
    assert done.err == ""


# --- names before 0.1.0


def renamed_options() -> list[tuple[str, str, str]]:
    """Each command with the old and the new name of one of its options."""
    names: list[tuple[str, str, str]] = []
    for command, new_names in renamed.OPTIONS.items():
        for old, new in new_names.items():
            names.append((command, old, new))
    return names


FLAGS = ("--strict", "--self-test", "--settle")
RENAMED = pytest.mark.parametrize(("command", "old", "new"), renamed_options())


def words_that_set(option: str, *, is_flag: bool, value: str) -> list[str]:
    return [option] if is_flag else [option, value]


def value_of(command: str, option: str, words: list[str]) -> object:
    """What the command takes for the option after these words of the command line."""
    loaded = loaded_command([command])
    (parameter,) = [parameter for parameter in loaded.params if option in parameter.opts]
    arguments = ["1"] * count_of_arguments(loaded)
    context = loaded.make_context(
        command,
        [*arguments, *words],
        auto_envvar_prefix=f"RAGBENCH_{command.upper().replace('-', '_')}",
        resilient_parsing=True,
    )
    return context.params[parameter.name]


def valid_value(new: str) -> str:
    return "distance" if new == "--score-kind" else "2"


@RENAMED
def test_an_old_name_sets_the_new_option(command: str, old: str, new: str) -> None:
    is_flag = old in FLAGS
    value = valid_value(new)
    by_new_name = value_of(command, new, words_that_set(new, is_flag=is_flag, value=value))

    by_old_name = value_of(command, new, words_that_set(old, is_flag=is_flag, value=value))

    assert by_old_name == by_new_name
    assert by_old_name != value_of(command, new, [])


@pytest.mark.parametrize(
    ("command", "old", "new"), [names for names in renamed_options() if names[1] not in FLAGS]
)
def test_an_old_name_takes_its_value_after_an_equals_sign(command: str, old: str, new: str) -> None:
    value = valid_value(new)

    by_old_name = value_of(command, new, [f"{old}={value}"])
    by_new_name = value_of(command, new, [new, value])

    assert by_old_name == by_new_name


@RENAMED
def test_an_old_name_in_the_environment_sets_the_new_option(
    command: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_flag = old in FLAGS
    value = valid_value(new)
    by_new_name = value_of(command, new, words_that_set(new, is_flag=is_flag, value=value))

    variable = f"RAGBENCH_{command}_{old[2:]}".upper().replace("-", "_")
    monkeypatch.setenv(variable, "1" if is_flag else value)

    assert value_of(command, new, []) == by_new_name


@RENAMED
def test_an_old_name_is_no_option_of_its_own(command: str, old: str, new: str) -> None:
    options: list[str] = []
    for parameter in loaded_command([command]).params:
        options += parameter.opts

    assert new in options
    assert old not in options


@pytest.mark.parametrize(("old", "new"), renamed.COMMANDS.items())
def test_an_old_command_works_and_is_hidden(ragbench: Ragbench, old: str, new: str) -> None:
    listed = ragbench("-h").ok().out
    help_of_old = ragbench(old, "--help-all").ok().out
    help_of_new = ragbench(new, "--help-all").ok().out

    assert f"  {new} " in listed
    assert f"  {old} " not in listed
    # The usage before the first empty line has the name that was typed.
    assert help_of_old.partition("\n\n")[2] == help_of_new.partition("\n\n")[2]
