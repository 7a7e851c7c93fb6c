"""Texts of users in formats that give some letters a meaning."""

from __future__ import annotations

import re

__all__ = ["annotation_message", "annotation_property", "markdown_text", "xml_text"]

_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>|~]|:(?=[\w/])")
_REFERENCE = re.compile(r"(?<!\w)@(?=\w)|#(?=\d)")
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters and turns of direction."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown_text(text: str, *, longest: int | None = None) -> str:
    """A text on one line of Markdown: it starts no markup, link, mention, reference or cell.

    Args:
        text: anything.
        longest: letters that are kept of it.
    """
    # No control letters: forges refuse a NUL, and terminals show the file too.
    line = _UNSEEN.sub(_number, " ".join(xml_text(text).split()))
    if longest is not None and len(line) > longest:
        line = f"{line[:longest].rstrip()} ..."
    # Forges look for @name and #1 in the finished page, where a backslash is gone already: an
    # empty comment parts the sign from what follows.
    return _REFERENCE.sub(r"\g<0><!-- -->", _MARKDOWN.sub(r"\\\g<0>", line))


def _number(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def xml_text(text: str) -> str:
    """A text with nothing that XML 1.0 cannot hold: such a letter is replaced by its number.

    The letters that mean something in XML are left to whoever builds the tree.

    Source: Extensible Markup Language (XML) 1.0, fifth edition, section 2.2.
    """
    return _NOT_XML.sub(_number, text)


def annotation_message(text: str) -> str:
    """The message of a workflow command: percent-encoded where its line would end."""
    return _readable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotation_property(text: str) -> str:
    """A property of a workflow command, which also must not hold what parts properties."""
    return annotation_message(text).replace(":", "%3A").replace(",", "%2C")


def _readable(text: str) -> str:
    """A text that can be written as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
