"""The two streams of the program: what is written to them neither leaks nor acts.

Everything that ragbench prints passes here. Credentials are masked, and letters that would move
the cursor, plant a link or turn the direction of writing are spelled by their numbers: case ids,
answers and error messages are other people's texts. Only what rich has laid out may carry escape
sequences of its own, over texts that were escaped before.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from ragbench.masking import hidden, hidden_bytes
from ragbench.safe_text import shown_text

if TYPE_CHECKING:
    from rich.console import Console


class _Stream:
    """A text stream that masks what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if not isinstance(cast("object", text), str):
            raise TypeError(f"write() takes a text, not {type(text).__name__}")
        self._stream.write(self._shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> _Bytes:
        return _Bytes(self._stream)

    def _shown(self, text: str) -> str:
        return hidden(text)


class _Guarded(_Stream):
    def _shown(self, text: str) -> str:
        return shown_text(hidden(text))


_ACTING_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What JSON may hold as it is, and a terminal obeys."""


class _Bytes:
    """Bytes of UTF-8, such as JSON: masked; for a terminal also escaped, as JSON writes it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.buffer, name)

    def write(self, block: bytes) -> int:
        data = hidden_bytes(bytes(block))
        if self._stream.isatty():
            text = data.decode("utf-8", "surrogateescape")
            escaped = _ACTING_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
            data = escaped.encode("utf-8", "surrogateescape")
        self._stream.buffer.write(data)
        return len(block)


@contextmanager
def guarded_streams() -> Generator[None]:
    """Puts the guards before standard output and standard error for the length of a block."""
    before = (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = (cast("TextIO", _Guarded(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def styled_stream(stream: IO[str]) -> TextIO:
    """A stream for who brings escape sequences of its own: rich, and a user's own code."""
    if isinstance(stream, _Guarded):
        return cast("TextIO", _Stream(stream._stream))  # pyright: ignore[reportPrivateUsage]
    return cast("TextIO", stream)


def safe_console(stream: IO[str], **settings: Any) -> Console:
    """A rich console on which no text acts, whatever stands in it."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, *arguments: Any, **named: Any) -> Iterable[Segment]:
            for segment in super().render(*arguments, **named):
                if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                    yield segment
                else:
                    yield Segment(shown_text(segment.text), segment.style)

    return SafeConsole(file=styled_stream(stream), **settings)
