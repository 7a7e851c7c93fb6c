"""Errors of reading whose messages are for the owner of a file, as they are.

They are no errors of the face: a reader notes them with their place, as problems of its file.
"""

from __future__ import annotations


class UnreadableError(OSError):
    """A source cannot be read as what it is taken for; says why."""

    def __init__(self, message: str) -> None:
        """Keeps the message as ``strerror``, too, of which messages about an OSError are made.

        The message is for the owner of the file as it is.
        """
        super().__init__(message)
        self.strerror = message


class ValueInWordsError(ValueError):
    """A value cannot be used; says what was expected."""
