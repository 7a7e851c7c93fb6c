"""People's labels of whether the answer is in the chunks, read as the retrievals that they judged.

``ragbench label RUN -m answer_present`` writes them, and ``ragbench calibrate`` fits a validator to
them. A file may also hold labels by other metrics: those are of answers, not of chunks.
"""

from __future__ import annotations

from pathlib import Path

from ragbench.core.chunk import Chunk
from ragbench.core.labels import ANSWER_PRESENT
from ragbench.core.validation import RetrievalDump
from ragbench.io.detect import container_rows
from ragbench.io.people import HumanLabel, Key, read_people, value_of
from ragbench.io.source import Problems, Source
from ragbench.safe_text import counted

_FIELDS_OF_LABEL = frozenset({"question", "metric", "value"})
"""Fields that each line has that ``ragbench label`` writes."""
_UNDECIDED = 0.5
"""People disagree, or say "partly": such a label fits neither a Yes nor a No of a validator."""


def holds_labels(source: Source) -> bool:
    """Whether the first record of a file is a label as ``ragbench label`` writes it, of any metric.

    Such a file looks like other JSON Lines, and is read in another way.
    """
    for row in container_rows(source, Problems()):
        return row.values.keys() >= _FIELDS_OF_LABEL
    return False


def labelled_retrievals(path: str | Path, notes: list[str]) -> list[RetrievalDump]:
    """The questions whose chunks people judged, each once, as retrievals with the people's verdict.

    A validator is fitted to them: it has to say whether the answer is in the chunks.

    Args:
        notes: gets a sentence for each kind of label that cannot be used.

    Raises:
        DataError: the file cannot be read, or a line is no label.
    """
    by_key: dict[Key, list[HumanLabel]] = {}
    of_other_metrics = 0
    without_chunks = 0
    for label in read_people(path):
        if label.metric not in ("", ANSWER_PRESENT.name):
            of_other_metrics += 1
        elif label.contexts is None:
            without_chunks += 1
        else:
            by_key.setdefault(label.key, []).append(label)
    if of_other_metrics:
        notes.append(f"{counted(of_other_metrics, 'label')} by other metrics left out")
    if without_chunks:
        notes.append(f"{counted(without_chunks, 'label')} without the chunks left out")
    return [
        _labelled_retrieval(f"q{number}", labels)
        for number, labels in enumerate(by_key.values(), 1)
    ]


def _labelled_retrieval(query_id: str, labels: list[HumanLabel]) -> RetrievalDump:
    """A question with its chunks, and whether most people say that the answer is in them.

    Where people disagree evenly the verdict is None: a validator cannot be fitted to such a case.

    Args:
        query_id: the id that the retrieval gets; labels have none.
        labels: all labels of the same question and chunks.
    """
    label = labels[0]
    chunks: list[Chunk] = []
    for position, text in enumerate(label.contexts or (), start=1):
        chunks.append(Chunk(id=f"#{position}", text=text))
    value = value_of(labels)
    answer_present = None
    if value is not None and value != _UNDECIDED:
        answer_present = value > _UNDECIDED
    return RetrievalDump(
        query_id=query_id,
        query=label.question,
        chunks=tuple(chunks),
        answer_present=answer_present,
    )
