"""Text that leaves the process, made safe for its place: a terminal, Markdown, XML, a CI's log.

Texts of users and of their systems are untrusted: a letter may move a terminal's cursor, begin a
link in a report, or break a file. Credentials are masked (`ragbench.masking`) before a text is cut
or escaped, since half of one would not be recognised. The small functions at the end put names and
counts into sentences.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from ragbench.masking import MARKDOWN_SIGNS, hidden

_REFERENCE = re.compile(
    r"(?<!\w)@(?=\w)|@(?=[\w-]+\.[\w-])|#(?=\d)|\bGH-(?=\d)|(?<!\w)www(?=\.)", re.IGNORECASE
)
"""Where forges make links without any markup: @names, addresses of mail, issues, hosts."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of writing."""
# The characters that XML refuses; a pattern of all but the allowed ones takes milliseconds to
# compile.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def markdown_text(text: str, *, longest: int | None = None) -> str:
    """A text on one line of Markdown: it starts no markup, link, mention, reference or cell.

    Args:
        longest: number of characters after which it is cut off, before anything is escaped.
    """
    # No control characters: forges refuse a NUL, and the file is also read in terminals.
    line = " ".join(_NOT_XML.sub(_number, hidden(text)).split())
    line = _CONTROL.sub(_number, line)
    if longest is not None and len(line) > longest:
        line = f"{line[:longest].rstrip()} ..."
    line = MARKDOWN_SIGNS.sub(r"\\\g<0>", line)
    # Forges look for references in the finished page, where backslashes are gone. So an empty
    # comment separates the sign from the name behind it.
    return _REFERENCE.sub(r"\g<0><!-- -->", line)


def _number(character: re.Match[str]) -> str:
    """A character as its number, such as ``x00`` behind a backslash."""
    return f"\\x{ord(character[0]):02x}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown; the cells are escaped already."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(' --- ' for _ in columns)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def xml_text(text: str) -> str:
    """A text that XML 1.0 can contain: a character that it forbids is replaced by its number.

    Characters with a meaning in XML, such as ``<``, are left to whoever builds the tree.

    Source: Extensible Markup Language (XML) 1.0, fifth edition, section 2.2.
    """
    return _NOT_XML.sub(_number, text)


def annotation(level: str, title: str, message: str) -> str:
    """A line that GitHub Actions shows as an annotation of the run, such as ``::error title=...``.

    Characters that would end the line, or one of its properties, are percent-encoded.
    """
    title = _encoded(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_encoded(message)}\n"


def _encoded(text: str) -> str:
    """A text for a workflow command: line ends percent-encoded, and broken letters as numbers."""
    readable = text.encode("utf-8", "backslashreplace").decode()
    return readable.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, turn the direction of writing, are invisible, or are half of
one (a surrogate).

Source: Unicode 15, general categories Cc, Cf and Cs; UAX 9 (directional formatting); Boucher &
Anderson 2021, "Trojan Source", arXiv:2111.00169.
"""
_ACTING_IN_TEXT = re.compile(_ACTING.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
"""The same without tab and line feed."""
_JOINERS = "\u200c\u200d"
"""Persian, Hindi and emoji are written with these, so they stay between letters."""


def shown_line(text: str, *, longest: int | None = None) -> str:
    """A text on one line for a terminal: characters that would act on it become their numbers.

    Args:
        longest: number of characters after which it is cut off.
    """
    # Masked before it is cut: half of a key would not be recognised.
    line = " ".join(hidden(text).split())
    if longest is not None and len(line) > longest:
        line = f"{line[:longest].rstrip()} ..."
    return _ACTING.sub(_spelled, line)


def shown_text(text: str) -> str:
    """A text of several lines for a terminal: only line ends and tabs still act on it."""
    return _ACTING_IN_TEXT.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(match: re.Match[str]) -> str:
    """The number of a character; a joiner behind a letter, mark or symbol as it is."""
    character = match[0]
    before = match.string[match.start() - 1 : match.start()]
    if character in _JOINERS and before and unicodedata.category(before)[0] in "LMS":
        return character
    if ord(character) < 0x10000:
        return f"\\u{ord(character):04x}"
    return f"\\U{ord(character):08x}"


_LONGEST_NAME = 60
_MOST_NAMES = 12


def shortened_line(text: str) -> str:
    """A name or an id for a message: at most 60 characters, each of which can be printed."""
    text = hidden(text)
    if len(text) > _LONGEST_NAME:
        text = f"{text[:_LONGEST_NAME]}..."
    return "".join(character if character.isprintable() else "?" for character in text)


def as_line(names: Sequence[str], most: int) -> str:
    """The first names, at most ``most``, and the number of the others: ``a, b and 3 more``."""
    line = ", ".join(names[:most])
    if len(names) > most:
        line += f" and {len(names) - most:,} more"
    return line


def listed(names: Sequence[str]) -> str:
    """Names for a message, each shortened; of more than 12 the number of the others."""
    return as_line([shortened_line(name) for name in names], _MOST_NAMES)


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """A sentence for the end of a message: the known name nearest to a wrong one; or nothing."""
    close = get_close_matches(name, list(known_names), n=1)
    if not close:
        return ""
    return f" Did you mean '{shortened_line(close[0])}'?"


def listed_names(name: object, known_names: Sequence[str]) -> str:
    """Sentences for the end of a message about a wrong name: the nearest one, and all."""
    return f"{did_you_mean(str(name), known_names)} Known: {', '.join(known_names)}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun in the right form: ``1 case``, ``2,000 cases``."""
    if number != 1:
        noun = plural or f"{noun}s"
    return f"{number:,} {noun}"
