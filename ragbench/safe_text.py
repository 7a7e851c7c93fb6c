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
    r"(?<!\w)@(?=\w)"  # @name: a mention, which also notifies that person
    r"|@(?=[\w-]+\.[\w-])"  # an address of mail
    r"|#(?=\d)"  # an issue, such as #12 or GH-12
    r"|\bGH-(?=\d)"
    r"|(?<!\w)www(?=\.)",  # a host
    re.IGNORECASE,
)
"""Where GitHub and its like make links without any markup."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of writing."""
# The characters that XML refuses; a pattern of all but the allowed ones takes milliseconds to
# compile.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def markdown_text(text: str, *, longest: int | None = None) -> str:
    """A text on one line of Markdown: it starts no markup, link, mention, reference or cell.

    Reports quote answers and documents, and are posted on pull requests: "@team" in an answer would
    notify people.

    Args:
        longest: number of characters after which it is cut off, before anything is escaped.
    """
    # No control characters: forges refuse a NUL, and the file is also read in terminals.
    line = " ".join(_NOT_XML.sub(_number_of_character, hidden(text)).split())
    line = _CONTROL.sub(_number_of_character, line)
    line = _cut_line(line, longest)
    line = MARKDOWN_SIGNS.sub(r"\\\g<0>", line)
    # Forges look for references in the finished page, where backslashes are gone. So an empty
    # comment separates the sign from the name behind it.
    return _REFERENCE.sub(r"\g<0><!-- -->", line)


def _cut_line(line: str, longest: int | None) -> str:
    """The beginning of a line, with dots behind it where the line is longer; None: the whole line.

    Credentials are masked before: half of one would not be recognised.

    Args:
        longest: number of characters that stay.
    """
    if longest is None or len(line) <= longest:
        return line
    return f"{line[:longest].rstrip()} ..."


def _number_of_character(match: re.Match[str]) -> str:
    """The number of a forbidden character, ``x00`` behind a backslash, to be put in its place.

    So a reader sees that there was one, and which.
    """
    code = ord(match[0])
    return f"\\x{code:02x}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown: the names of the columns, a rule, and the rows.

    Reports for pull requests and files are made of it.

    Args:
        columns: the names of the columns, escaped by `markdown_text` like the cells of the rows.
    """
    yield _markdown_row(columns)
    yield "|" + " --- |" * len(columns)
    for row in rows:
        yield _markdown_row(row)


def _markdown_row(cells: Sequence[str]) -> str:
    """One line of a table in Markdown, of cells that are escaped already.

    The head of a table is a row like any other.
    """
    joined = " | ".join(cells)
    return f"| {joined} |"


def xml_text(text: str) -> str:
    """A text that XML 1.0 can contain: a character that it forbids is replaced by its number.

    With one such character the whole JUnit file of a gate would be unreadable to the CI. Characters
    with a meaning in XML, such as ``<``, are left to the library that writes the tree.

    Source: Extensible Markup Language (XML) 1.0, fifth edition, section 2.2.
    """
    return _NOT_XML.sub(_number_of_character, text)


def annotation(level: str, title: str, message: str) -> str:
    """A line that GitHub Actions shows as an annotation of the run, such as ``::error title=...``.

    Characters that would end the line, or one of its properties, are percent-encoded. A GitHub
    runner reads it from the output of a step: the form is GitHub's.
    """
    encoded_title = _encoded_for_workflow(title).replace(":", "%3A").replace(",", "%2C")
    encoded_message = _encoded_for_workflow(message)
    return f"::{level} title={encoded_title}::{encoded_message}\n"


def _encoded_for_workflow(text: str) -> str:
    """A text for a workflow command of GitHub, with its line ends percent-encoded.

    A line end in a message would end the command, and the rest could be another command.
    """
    # Half of a character (a surrogate) cannot be written as UTF-8.
    writable = text.encode("utf-8", "backslashreplace").decode()
    # The percent sign first, so that those of the line ends are not encoded once more.
    encoded = writable.replace("%", "%25")
    encoded = encoded.replace("\r", "%0D")
    return encoded.replace("\n", "%0A")


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
"""The same without tab and line feed, which a text of several lines needs."""
_JOINERS = "\u200c\u200d"
"""Persian, Hindi and emoji are written with these, so they stay between letters."""


def shown_line(text: str, *, longest: int | None = None) -> str:
    """A text on one line for a terminal: credentials masked, acting characters as their numbers.

    An answer may hold characters that move the cursor, colour the screen, or hide text.

    Args:
        longest: number of characters after which it is cut off.
    """
    # Masked before it is cut: half of a key would not be recognised.
    line = " ".join(hidden(text).split())
    line = _cut_line(line, longest)
    return _ACTING.sub(_spelled_number, line)


def shown_text(text: str) -> str:
    """A text of several lines for a terminal, on which only line ends and tabs still act.

    An answer may hold characters that move the cursor, colour the screen, or hide text.
    """
    unix_lines = text.replace("\r\n", "\n")
    return _ACTING_IN_TEXT.sub(_spelled_number, unix_lines)


def _spelled_number(match: re.Match[str]) -> str:
    """The number of a character that would act on a terminal, to be shown in its place.

    A joiner behind a letter, a mark or a symbol stays, since words and emoji are built with it.

    Args:
        match: of the character, as `re.sub` finds it.
    """
    character = match[0]
    if character in _JOINERS:
        before = match.string[match.start() - 1 : match.start()]
        # Behind nothing, or behind a blank, a joiner is invisible and may deceive.
        if before and unicodedata.category(before)[0] in "LMS":
            return character
    code = ord(character)
    # The forms of JSON and Python for short and long numbers.
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


_LONGEST_NAME = 60
"""Characters of a name in a message, which is a line in a terminal."""
_MOST_NAMES = 12
"""Names that a message lists."""


def shortened_line(text: str) -> str:
    """A name or an id for a message: masked, at most 60 characters, each of which can be printed.

    Names come from users' files, and may be of any length.
    """
    # Masked before it is cut: half a key would not be recognised.
    name = hidden(text)
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}..."
    printable = ""
    for character in name:
        printable += character if character.isprintable() else "?"
    return printable


def as_line(names: Sequence[str], most: int) -> str:
    """Names on one line, at most ``most``, and the number of the others: ``a, b and 3 more``.

    A message stays readable where a thousand names are concerned.
    """
    line = ", ".join(names[:most])
    unnamed = len(names) - most
    if unnamed > 0:
        line += f" and {unnamed:,} more"
    return line


def listed(names: Sequence[str]) -> str:
    """Names on one line for a message, each shortened; of more than 12 the number of the others.

    Names come from users' files, and may be many and long.
    """
    shortened = [shortened_line(name) for name in names]
    return as_line(shortened, _MOST_NAMES)


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """A sentence for the end of a message: the known name nearest to a wrong one; or nothing.

    Most wrong names are slips: the sentence saves the look into the documentation.
    """
    nearest_names = get_close_matches(name, list(known_names), n=1)
    if not nearest_names:
        return ""
    # A known name may come from a user's file: it may be long, or hold a key.
    nearest = shortened_line(nearest_names[0])
    return f" Did you mean '{nearest}'?"


def listed_names(name: object, known_names: Sequence[str]) -> str:
    """Sentences for the end of a message about a wrong name: the nearest name, and all.

    The message then need not be followed by a look into the documentation.
    """
    question = did_you_mean(str(name), known_names)
    names = ", ".join(known_names)
    return f"{question} Known: {names}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun in the right form: ``1 case``, ``2,000 cases``.

    A message with "1 cases" looks like a mistake in the figure.

    Args:
        plural: of a noun that forms it without an s, such as "queries".
    """
    form = noun
    if number != 1:
        form = plural or f"{noun}s"
    return f"{number:,} {form}"
