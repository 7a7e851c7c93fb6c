"""The boundary between a file and its reader: what a library raises becomes the reader's own error.

A damaged file makes parsers raise anything: errors of their own, and a TypeError, a RecursionError
or an AssertionError from their depths. A list of types is never complete, so none is kept: each
reader puts one context around its reading.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from ragbench.core.in_words import UnreadableError
from ragbench.errors import InterfaceError, RagbenchError

_LONGEST_REASON = 200
"""Characters of a library's message: some repeat the data that they refuse."""
_TOO_MANY_DIGITS = "set_int_max_str_digits"
"""What Python names when it refuses a number of more than 4,300 digits, by a plain ValueError."""


class Reading:
    """A context in which a file is read: whatever is raised in it becomes an error of the reader.

    Errors of ragbench pass, because they are in the reader's words already.

    Example:
        >>> with Reading(lambda error: UnreadableError(f"bad: {words_of(error)}")):
        ...     int("x")
        Traceback (most recent call last):
        ragbench.core.in_words.UnreadableError: bad: invalid literal for int() with base 10: 'x'
    """

    # A class, not a generator: it is entered for each row of files with millions of rows.
    __slots__ = ("_refusal",)

    def __init__(self, refusal: Callable[[Exception], Exception]) -> None:
        """Takes the function that makes the reader's own error of any error that was raised.

        The reader's own error names the file and the place, and has the reader's words.
        """
        self._refusal = refusal

    def __enter__(self) -> None:
        """Begins the reading, with nothing to prepare.

        A ``with`` statement asks for it.
        """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raises the reader's own error in place of one that a library raised in this context.

        Errors that are in words for the file's owner pass, and so does an interrupt from the
        keyboard.
        """
        if isinstance(error, Exception) and not is_in_words(error):
            raise self._refusal(error) from error


def is_in_words(error: Exception) -> bool:
    """Whether an error already has the reason that a file is wrong, in words for its owner.

    An error in words passes as it is; others are reworded. An `InterfaceError` (a value without the
    form that a RAG must give) is not in such words: raised from a file, it means a damaged record.
    """
    if isinstance(error, InterfaceError):  # a kind of RagbenchError
        return False
    return isinstance(error, (RagbenchError, UnreadableError))


_SYSTEM_RESULTS = (
    "BUSY",
    "CANTOPEN",
    "FULL",
    "INTERRUPT",
    "IOERR",
    "LOCKED",
    "NOMEM",
    "PERM",
    "READONLY",
)
"""Results of SQLite that blame the system and not the file: a full disk, a lock, a right."""


def is_of_the_system(error: Exception) -> bool:
    """Whether the system did not let us read, or write, a file that may be in order.

    A damaged file is made anew or left out; of a full disk the user has to hear.
    The names of SQLite's results are those above.
    """
    if isinstance(error, (OSError, MemoryError)):
        return True
    # Only errors of SQLite have this name, which begins with the kind of the result.
    result = str(getattr(error, "sqlite_errorname", ""))
    return result.removeprefix("SQLITE_").startswith(_SYSTEM_RESULTS)


def words_of(error: Exception) -> str:
    """Why a file cannot be read, in words for its owner, who knows the file and not its parser.

    Args:
        error: of any library; its message is cut and made safe to print.
    """
    from ragbench.safe_text import shown_line  # most files are in order

    text = str(error)
    # By their kind first: the texts of these errors say nothing to a file's owner.
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return f"it lacks {shown_line(text, longest=_LONGEST_REASON)}"
    if _TOO_MANY_DIGITS in text:
        return "a number in it has too many digits"
    name = type(error).__name__
    reason = shown_line(text, longest=_LONGEST_REASON)
    if not reason:  # an assert says nothing
        reason = name
    # The parser went on where the data left the form that it expects.
    if isinstance(error, (TypeError, AttributeError, IndexError, ArithmeticError, AssertionError)):
        return f"its parts do not fit together ({name}: {reason})"
    return reason
