"""Rules as data: patterns and words in a TOML file beside the module that reads them; prompts.

An entry is an expression, or a list of alternatives. ``{name}`` in it stands for another entry of
its section or of the file; line breaks and the indentation behind them do not count.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pkgutil import get_data
from typing import Any, NamedTuple

_REFERENCE = re.compile(r"\{([a-z_]+)\}")
_LINE_BREAK = re.compile(r"\A\s+|\n\s*")


@cache
def table(package: str, name: str, section: str = "") -> Mapping[str, Any]:
    """A section of a TOML file beside a module, with what is above all sections; read once.

    Rules and word lists are data in such files, which a native speaker can read and add to.

    Args:
        package: in whose folder the file is.
        name: of the file without ``.toml``.
        section: without one, the whole file is returned.
    """
    if section:
        file = table(package, name)
        # Where the section and the file above it have an entry of one name, the section's counts.
        return {**file, **file[section]}
    # By the package's loader, since it may be read from an archive.
    data = get_data(package, f"{name}.toml") or b""
    return tomllib.loads(data.decode())


class Prompt(NamedTuple):
    """What a language model is told to do, as a file of its own holds it."""

    version: int
    """The first line of the file. It is raised with every change of the text: verdicts by another
    text do not compare."""
    text: str


@cache
def read_prompt(package: str, name: str) -> Prompt:
    """The prompt in the file ``prompts/NAME.md`` of a package, with the version that is in it.

    A prompt is the order to a language model. The version is in the first line of the file, and is
    raised with every change of the text: verdicts by another text do not compare.
    """
    raw = get_data(package, f"prompts/{name}.md") or b""
    head, _, text = raw.decode().partition("\n")
    return Prompt(version=int(head.removeprefix("version ")), text=text.strip())


def regex_text(rule: str | Sequence[str], entries: Mapping[str, Any]) -> str:
    """A rule of a table as one regular expression, the names of other rules in it filled in.

    A rule can be a list of alternatives, so that a table keeps long ones readable.

    Args:
        entries: the rules by name; ``{name}`` in a rule is the place of another one.
    """
    alternatives = [rule] if isinstance(rule, str) else rule
    text = "|".join([_LINE_BREAK.sub("", alternative) for alternative in alternatives])
    return _REFERENCE.sub(lambda reference: regex_text(entries[reference[1]], entries), text)


class Patterns(dict[str, re.Pattern[str]]):
    """The patterns of a section, each compiled when it is first used.

    To compile all of them would cost every command its time, and most commands use none.
    """

    def __init__(self, package: str, name: str, section: str = "", flags: int = 0) -> None:
        """Names the table whose patterns are compiled on demand.

        Nothing is read or compiled yet: most commands use no pattern.

        Args:
            package: in whose folder the file is.
            name: of the file without ``.toml``.
            section: of the file; all entries of the whole file without one.
            flags: of `re`, for each pattern.
        """
        super().__init__()
        # The arguments of `table`, which is read when the first pattern is asked for.
        self._table_arguments = (package, name, section)
        self._flags = flags

    def __missing__(self, name: str) -> re.Pattern[str]:
        """The compiled pattern of an entry that is used for the first time; it is kept.

        `dict` calls this for an unknown key.

        Args:
            name: of the entry in the table.
        """
        entries = table(*self._table_arguments)
        pattern = re.compile(regex_text(entries[name], entries), self._flags)
        self[name] = pattern
        return pattern
