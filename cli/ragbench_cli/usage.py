"""What a wrong command line is answered with: the problem, the nearest option, an example.

Typer's own texts name the problem alone. This module is imported when there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from ragbench.safe_text import did_you_mean
from ragbench_cli.options import document

_EXAMPLE = re.compile(r"^ *(ragbench .+)$", re.MULTILINE)
"""A line of the examples in a command's help."""
_LEAST_LETTERS = 3
"""With more letters than that, the dashes of an option included, a name that begins another one is
meant to be it."""


def usage_text(error: Any) -> str:
    """An error of usage, of any of Typer's classes, in two or three lines."""
    context = error.ctx
    if context is None:  # raised where no command is known
        return str(error.format_message())
    flag = _flag_of(error)
    return _with_example(_problem(error, context, flag), context, flag)


def choice_text(parameter: Any, context: Any, value: str, choices: Sequence[str]) -> str:
    """The error of a value that is none of an option's choices."""
    flag = _long_name(parameter)
    meant = did_you_mean(value, choices)
    problem = f"{flag} must be one of {', '.join(choices)}, not '{value}'.{meant}"
    nearest = get_close_matches(value, choices, n=1) or choices
    return _with_example(problem, context, flag, nearest[0])


def number_text(parameter: Any, context: Any, value: str, minimum: float | None) -> str:
    """The error of a value that is no number, or a smaller one than an option takes."""
    flag = _long_name(parameter)
    kind = "a whole number" if parameter.type_descriptor.annotation is int else "a number"
    least = "" if minimum is None else f" from {minimum:g} on"
    problem = f"{flag} must be {kind}{least}, not '{value}'."
    return _with_example(problem, context, flag, "0.5" if parameter.metavar == "SHARE" else "10")


def unknown_command_text(name: str, group: Any, context: Any) -> str:
    """The error of a name that is none of a group's commands."""
    commands: dict[str, Any] = {}
    for known_name in group.list_commands(context):
        command = group.get_command(context, known_name)
        if not command.hidden:
            commands[known_name] = command
    problem = f"{context.command_path} has no command '{name}'."
    all_commands = f"All commands: {context.command_path} --help"
    nearest = _nearest(name, commands)
    if nearest is None:
        return f"{problem}\n{all_commands}"
    command = commands[nearest]
    loaded = command.loaded() if hasattr(command, "loaded") else command
    example = _example(loaded, None)
    return f"{problem} Did you mean '{nearest}'?\nExample: {example}\n{all_commands}"


def _nearest(name: str, known_names: Iterable[str]) -> str | None:
    """The known name that was meant: one that begins it or that it begins, else the most similar.

    "evaluate" has more letters in common with "validate" than with "eval", which it begins with.
    """
    names = list(known_names)
    for known_name in names:
        is_longer = len(known_name) > _LEAST_LETTERS and name.startswith(known_name)
        if is_longer or (len(name) > _LEAST_LETTERS and known_name.startswith(name)):
            return known_name
    similar = get_close_matches(name, names, n=1)
    return similar[0] if similar else None


def _with_example(problem: str, context: Any, flag: str | None, value: str = "") -> str:
    """A problem with an example of the command and where all options are shown.

    Args:
        flag: the option that the example should have.
        value: one that the option takes, for a command whose help has no example of it.
    """
    lines = [problem]
    example = _example(context.command, flag)
    if example:
        if value and flag not in example.split():
            example += f" {flag} {value}"
        lines.append(f"Example: {example}")
    lines.append(f"All options: {context.command_path} --help-all")
    return "\n".join(lines)


def _flag_of(error: Any) -> str | None:
    """The option that an error is about, or the nearest one to it; None for an argument."""
    parameter = getattr(error, "param", None)
    if parameter is not None:
        return None if parameter.param_type_name == "argument" else _long_name(parameter)
    name = getattr(error, "option_name", None)
    if name is None:
        return None
    parameters = _options(error.ctx)
    if name in parameters:
        return str(name)
    return _nearest(name, parameters)


def _problem(error: Any, context: Any, flag: str | None) -> str:
    """What is wrong with the command line."""
    parameters = _options(context)
    name = getattr(error, "option_name", None)
    if name is not None and name not in parameters:
        meant = f" Did you mean {_spelled(parameters[flag])}?" if flag else ""
        return f"{context.command_path} has no option {name}.{meant}"
    if name is not None:
        parameter = parameters[name]
        if parameter.is_flag:
            return f"{name} takes no value."
        return f"{name} needs a value: {_spelled(parameter)}."
    parameter = getattr(error, "param", None)
    if parameter is not None and type(error).__name__ == "MissingParameter":
        document(context.command)
        return f"{context.command_path} needs {_spelled(parameter)}: {_first_sentence(parameter)}."
    return f"{str(error.format_message()).rstrip('.')}."


def _options(context: Any) -> dict[str, Any]:
    """The options of a command by each of their names."""
    parameters: dict[str, Any] = {}
    for parameter in context.command.get_params(context):
        if parameter.param_type_name == "option":
            parameters |= dict.fromkeys(parameter.opts, parameter)
    return parameters


def _long_name(parameter: Any) -> str:
    return str(max(parameter.opts, key=len))


def _spelled(parameter: Any) -> str:
    """An argument or an option as it is given, with the word for its value."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    if parameter.is_flag or not parameter.metavar:
        return _long_name(parameter)
    return f"{_long_name(parameter)} {parameter.metavar}"


def _first_sentence(parameter: Any) -> str:
    """The beginning of a parameter's help."""
    text = " ".join((parameter.help or "").split())
    sentence, _, _ = text.partition(". ")
    return sentence.rstrip(".")


def _example(command: Any, flag: str | None) -> str:
    """A line from the examples of a command, with the option if one has it; empty for none."""
    examples = _EXAMPLE.findall(command.help or "")
    for example in examples:
        if flag is not None and flag in example.split():
            return str(example)
    return str(examples[0]) if examples else ""
