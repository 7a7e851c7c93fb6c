"""Texts in command lines that a user copies, such as ``--field query="Question asked"``."""

from __future__ import annotations

import re
from shlex import quote

_PLAIN_IN_QUOTES = re.compile(r"[\w \-.,()?#/:%°+'&\[\]=<>]+")
"""A text that every shell reads as it is between double quotes."""


def shell_quoted(text: str) -> str:
    """A text as it is typed in a command line: between double quotes if every shell takes it so.

    Users copy a suggested command into the shell they have: only double quotes mean the same in
    all.
    """
    if _PLAIN_IN_QUOTES.fullmatch(text):
        needs_quotes = quote(text) != text
        return f'"{text}"' if needs_quotes else text
    return quote(text)
