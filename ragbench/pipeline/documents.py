"""Where a pipeline's documents come from: read when something first asks for them, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragbench.errors import ConfigError
from ragbench.records.corpus import Document

__all__ = ["Documents"]


@dataclass(slots=True)
class Documents:
    """The documents of a corpus, or of a dataset that a command was given."""

    source: Path | None = None
    """A file or folder in any of the formats that ragbench reads."""
    given: Callable[[], Iterable[Document]] | None = None
    """Where they come from when no source is named."""
    _read: Sequence[Document] | None = field(default=None, init=False)

    def read(self) -> Sequence[Document]:
        """All documents.

        Raises:
            DataError: the corpus has problems.
            ConfigError: there is no corpus.
        """
        if self._read is None:
            if self.source is not None:
                from ragbench.data.read import read_documents

                self._read = list(read_documents(self.source))
            elif self.given is not None:
                self._read = list(self.given())
            else:
                raise ConfigError(
                    "the pipeline has no documents: name them under indexing, 'corpus: PATH'"
                )
        return self._read
