"""Old names of options and commands work for one more release."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from ragbench_cli.main import RENAMED, RENAMED_COMMANDS, app
from tests.cli.runs import Ragbench


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [(command, *names) for command, renamed in RENAMED.items() for names in renamed.items()],
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
    for old, new in RENAMED_COMMANDS.items():
        assert f"  {new} " in listed and f"  {old} " not in listed
        assert (
            ragbench(old, "-h").ok().out.partition("\n\n")[2]
            == (ragbench(new, "-h").ok().out.partition("\n\n")[2])
        )
