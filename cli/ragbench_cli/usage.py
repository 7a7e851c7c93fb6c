"""What a wrong command line is answered with: the problem, the nearest option, an example.

Typer's own texts name the problem alone. This module is imported when there is one. Errors,
contexts and parameters are ``Any`` in it: Typer brings its own classes for them, and gives them no
public names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from ragbench.safe_text import did_you_mean
from ragbench_cli.options import document, long_name

_EXAMPLE = re.compile(r"^ *(ragbench .+)$", re.MULTILINE)
"""A line of the examples in a command's help."""
_LONGEST_CHANCE = 3
"""Letters in which two names begin alike by chance, the dashes of an option included: a name that
is longer, and begins another one, is meant to be it."""


def usage_text(error: Any) -> str:
    """The text of an error in the command line: the problem, an example, and where all options are.

    The problem comes first, then an example with the option in question, then where all are shown.
    """
    context = error.ctx
    if context is None:  # raised where no command is known
        return str(error.format_message())
    flag = _flag_of(error)
    problem = _problem_text(error, context, flag)
    return _with_example(problem, context, flag)


def choice_text(parameter: Any, context: Any, value: str, choices: Sequence[str]) -> str:
    """The error of a value that is none of an option's choices.

    Its example has the nearest choice, or the first one where none is near.
    """
    flag = long_name(parameter)
    meant = did_you_mean(value, choices)
    problem = f"{flag} must be one of {', '.join(choices)}, not '{value}'.{meant}"
    # The most similar choice is likely the one that was meant.
    similar = get_close_matches(value, choices, n=1)
    example_value = choices[0]
    if similar:
        example_value = similar[0]
    return _with_example(problem, context, flag, example_value)


def number_text(parameter: Any, context: Any, value: str, minimum: float | None) -> str:
    """The text of an error about an option's value that is no number, or one that is too small.

    It has an example with a number that the option takes.

    Args:
        minimum: the least number that the option takes; None for any.
    """
    flag = long_name(parameter)
    kind = "a number"
    if parameter.type_descriptor.annotation is int:
        kind = "a whole number"
    if minimum is not None:
        kind += f" from {minimum:g} on"
    problem = f"{flag} must be {kind}, not '{value}'."
    example_value = "10"
    if parameter.metavar == "SHARE":  # from 0 to 1
        example_value = "0.5"
    return _with_example(problem, context, flag, example_value)


def unknown_command_text(name: str, group: Any, context: Any) -> str:
    """The text of an error about a command that does not exist, with the nearest one.

    Hidden commands are old names of others, and are never what is advised.
    """
    commands: dict[str, Any] = {}
    for command_name in group.list_commands(context):
        command = group.get_command(context, command_name)
        # Hidden commands are old names: one would be advised where its new name is as near.
        if not command.hidden:
            commands[command_name] = command
    problem = f"{context.command_path} has no command '{name}'."
    all_commands = f"All commands: {context.command_path} --help"
    nearest = _nearest_name(name, commands)
    if nearest is None:
        return f"{problem}\n{all_commands}"
    command = commands[nearest]
    if hasattr(command, "loaded"):  # its module, with its help, is imported when it is needed
        command = command.loaded()
    example = _example_line(command, None)
    return f"{problem} Did you mean '{nearest}'?\nExample: {example}\n{all_commands}"


def _nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """The command or option that was meant by a name that is none; None where none is near.

    One that begins the name, or that the name begins, goes before the most similar one:
    "evaluate" has more letters in common with "validate" than with "eval", which it begins with.
    """
    candidates = list(candidates)
    for candidate in candidates:
        # Longer than `_LONGEST_CHANCE`, since short beginnings are equal by chance.
        begins_name = name.startswith(candidate) and len(candidate) > _LONGEST_CHANCE
        is_begun_by_name = candidate.startswith(name) and len(name) > _LONGEST_CHANCE
        if begins_name or is_begun_by_name:
            return candidate
    for candidate in get_close_matches(name, candidates, n=1):
        return candidate
    return None


def _with_example(problem: str, context: Any, flag: str | None, value: str = "") -> str:
    """The text of a problem with an example of its command, and where all options are shown.

    All errors of usage end so.

    Args:
        flag: the option that the example should have.
        value: one that the option takes, for a command whose help has no example of it.
    """
    lines = [problem]
    example = _example_line(context.command, flag)
    if example:
        # An example with the flag shows its value already.
        if value and flag not in example.split():
            example += f" {flag} {value}"
        lines.append(f"Example: {example}")
    lines.append(f"All options: {context.command_path} --help-all")
    return "\n".join(lines)


def _flag_of(error: Any) -> str | None:
    """The option that an error is about, or the nearest one to it; None for an argument.

    The error's example shows this option. An error of Typer has the parameter that it is about, or
    the option's name as the user wrote it, or neither.
    """
    # Some errors of Typer have this field, others the one below, some neither.
    parameter = getattr(error, "param", None)
    if parameter is not None:
        if parameter.param_type_name == "argument":
            return None
        return long_name(parameter)
    name = getattr(error, "option_name", None)
    if name is None:
        return None
    options = _options_by_name(error.ctx)
    if name in options:
        return str(name)
    return _nearest_name(name, options)


def _problem_text(error: Any, context: Any, flag: str | None) -> str:
    """A sentence on what is wrong with the command line, and what to write instead.

    Typer's own text names the problem alone.

    Args:
        flag: the nearest option, where the one of the error does not exist.
    """
    options = _options_by_name(context)
    name = getattr(error, "option_name", None)
    if name is not None and name not in options:
        problem = f"{context.command_path} has no option {name}."
        if flag:
            problem += f" Did you mean {_spelled_parameter(options[flag])}?"
        return problem
    if name is not None:
        option = options[name]
        if option.is_flag:
            return f"{name} takes no value."
        return f"{name} needs a value: {_spelled_parameter(option)}."
    parameter = getattr(error, "param", None)
    # By the name of the error's class: the class itself cannot be imported from Typer.
    if parameter is not None and type(error).__name__ == "MissingParameter":
        # Help texts are put on parameters when they are needed, as they are here.
        document(context.command)
        spelled = _spelled_parameter(parameter)
        return f"{context.command_path} needs {spelled}: {_first_sentence(parameter)}."
    message = str(error.format_message())
    return f"{message.rstrip('.')}."


def _options_by_name(context: Any) -> dict[str, Any]:
    """The options of a command by each of their names, short and long, to find the nearest one.

    Typer's errors name an option as the user wrote it.
    """
    options: dict[str, Any] = {}
    for parameter in context.command.get_params(context):
        # Arguments have no name on the command line.
        if parameter.param_type_name == "option":
            for name in parameter.opts:
                options[name] = parameter
    return options


def _spelled_parameter(parameter: Any) -> str:
    """An argument or an option as the user has to write it: ``DATASET``, ``--top-k K``.

    An error shows it ready to type.
    """
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    name = long_name(parameter)
    # A flag takes no value.
    if parameter.is_flag or not parameter.metavar:
        return name
    return f"{name} {parameter.metavar}"


def _first_sentence(parameter: Any) -> str:
    """The first sentence of a parameter's help, without its full stop: an error is short.

    It follows the option's name in an error.
    """
    text = " ".join((parameter.help or "").split())
    sentence, _, _ = text.partition(". ")
    return sentence.rstrip(".")


def _example_line(command: Any, flag: str | None) -> str:
    """A line from the examples in a command's help; empty where it has none.

    An example of the help works as it is, unlike one that is put together.

    Args:
        flag: an option that the example should have, if any of them does.
    """
    examples: list[str] = _EXAMPLE.findall(command.help or "")
    for example in examples:
        if flag is not None and flag in example.split():
            return example
    # The first one, where none has the flag.
    for example in examples:
        return example
    return ""
