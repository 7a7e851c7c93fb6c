"""Text that leaves the process: escaped, on one line; and masked, see `ragbench.masking`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from ragbench.masking import hidden

_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>|~]|:(?=[\w/])")
_REFERENCE = re.compile(
    r"(?<!\w)@(?=\w)|@(?=[\w-]+\.[\w-])|#(?=\d)|\bGH-(?=\d)|(?<!\w)www(?=\.)", re.IGNORECASE
)
"""What forges make links of without any markup: names, addresses of mail, issues, hosts."""
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters and turns of direction."""
# Those that XML allows, excluded, would take milliseconds to compile.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def markdown_text(text: str, *, longest: int | None = None) -> str:
    """A text on one line of Markdown: it starts no markup, link, mention, reference or cell."""
    # No control letters: forges refuse a NUL, and terminals show the file too.
    line = " ".join(_NOT_XML.sub(_number, hidden(text)).split())
    line = _UNSEEN.sub(_number, line)
    if longest is not None and len(line) > longest:
        line = f"{line[:longest].rstrip()} ..."
    # Forges look for these in the finished page, where a backslash is gone already: an
    # empty comment parts the sign from what follows.
    return _REFERENCE.sub(r"\g<0><!-- -->", _MARKDOWN.sub(r"\\\g<0>", line))


def _number(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(' --- ' for _ in columns)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def xml_text(text: str) -> str:
    """A text with nothing that XML 1.0 cannot hold: such a letter is replaced by its number.

    The letters that mean something in XML are left to whoever builds the tree.

    Source: Extensible Markup Language (XML) 1.0, fifth edition, section 2.2.
    """
    return _NOT_XML.sub(_number, text)


def annotation(level: str, title: str, message: str) -> str:
    """A workflow command, percent-encoded where its line, or a property of it, would end."""
    title = _encoded(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_encoded(message)}\n"


def _encoded(text: str) -> str:
    readable = text.encode("utf-8", "backslashreplace").decode()
    return readable.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Letters that move the cursor, turn the direction of writing, are invisible, or are half of one.

Source: Unicode 15, general categories Cc, Cf and Cs; UAX 9 (directional formatting); Boucher &
Anderson 2021, "Trojan Source", arXiv:2111.00169.
"""
_ACTING_IN_TEXT = re.compile(_ACTING.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_JOINERS = "\u200c\u200d"
"""Persian, Hindi and emoji are written with these."""


def shown_line(text: str, *, longest: int | None = None) -> str:
    """A text on one line, in which no letter acts: what would is spelled by its number."""
    line = " ".join(hidden(text).split())  # before it is cut: half of a key is one, too
    if longest is not None and len(line) > longest:
        line = f"{line[:longest].rstrip()} ..."
    return _ACTING.sub(_spelled, line)


def shown_text(text: str) -> str:
    """A text of several lines, in which no letter acts but line ends and tabs."""
    return _ACTING_IN_TEXT.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    letter = found[0]
    before = found.string[found.start() - 1 : found.start()]
    # Between letters they join; anywhere else they hide.
    if letter in _JOINERS and before and unicodedata.category(before)[0] in "LMS":
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


_LONGEST = 60
_MOST = 12


def shortened_line(text: str) -> str:
    """A name or an id, not too long and without what moves the cursor of a terminal."""
    text = hidden(text)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return "".join(at if at.isprintable() else "?" for at in shown)


def as_line(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def listed(names: Sequence[str]) -> str:
    return as_line([*map(shortened_line, names)], _MOST)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Behind a message's full stop: the known name that is nearest, if any is near."""
    close = get_close_matches(given, list(known), n=1)
    return f" Did you mean '{shortened_line(close[0])}'?" if close else ""


def listed_names(given: object, known: Sequence[str]) -> str:
    return f"{did_you_mean(str(given), known)} Known: {', '.join(known)}"


def counted(number: int, thing: str, many: str = "") -> str:
    return f"{number:,} {thing if number == 1 else many or f'{thing}s'}"
