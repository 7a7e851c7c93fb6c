"""Near misses that people wrote, beside the questions that they were written after.

From the folder of further sets, where they are given: ``unansq-dev-*.txt`` and
``unansq-train-*.txt`` (pairs of SQuAD 2.0's training questions without and with an answer, as
github.com/haichao592/UnAnsQ holds them; ``dev`` has its passages), and ``squad_train_parts.json``
(SQuAD 1.1's or 2.0's training file, whole or in parts, in its format: the passages of ``train``;
where a question stands without its answer's place, its text may be a single sentence). SQuAD is
CC BY-SA 4.0; UnAnsQ's repository, which says which of its questions belong together, carries no
licence file. UnAnsQ's ``test`` is SQuAD's dev, which pools are made of: it is not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.train_validator.reader_sources import TESTED, Example
from benchmarks.validation_pools import rows

_Line = list[str]
_IN_A_ROW, _SHARED = 8, 10
"""A passage with so many runs of so many words that a tested passage has is that passage."""
_TEXT_BEFORE = re.compile(r" (?=[,.;:?!%)\]]|'s\b|n't\b)")


@dataclass(frozen=True, slots=True)
class Written:
    """Pairs of a question and a passage, none twice."""

    without: tuple[Example, ...]
    """Questions that people wrote so that their passage seems to answer them."""
    answered: tuple[Example, ...]
    """Questions that those passages do answer."""


def written_near_misses(data: Path, extra: Path) -> Written:
    """All that the folder holds; nothing where it holds none of the files.

    Passages that a tested set holds are left out; most have no title to tell them by.

    Args:
        data: the folder of `reader_sources.all_sources`.
        extra: that of the further sets.

    Raises:
        ValueError: a file's lines do not belong together.
    """
    found = [*_with_passages(extra), *_from_training_file(extra)]
    passages = (row["text"] for name in TESTED for row in rows(data / f"{name}.passages.jsonl"))
    tested = frozenset(run for text in passages for run in _runs(text))
    left_out = {text for text in {one.text for one in found} if _is_of(text, tested)}
    unique = {(one.query, one.text): one for one in found if one.text not in left_out}.values()
    return Written(
        without=tuple(one for one in unique if one.label == 0),
        answered=tuple(one for one in unique if one.label > 0),
    )


def _is_of(text: str, tested: frozenset[str]) -> bool:
    return len(tested & set(_runs(text))) >= _SHARED


def _runs(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", text.lower())
    return [" ".join(words[at : at + _IN_A_ROW]) for at in range(len(words) - _IN_A_ROW + 1)]


def _with_passages(extra: Path) -> Iterator[Example]:
    """UnAnsQ's dev: tokens with spaces between them, and the answer's first and last token."""
    if not (extra / "unansq-dev-context.txt").exists():
        return
    passages = _lines(extra / "unansq-dev-context.txt")
    for passage, (asked, without) in zip(passages, _pairs(extra, "dev"), strict=True):
        tokens = passage[0].split(" ")
        first, last = int(asked[2]), int(asked[3])
        before = _plain(" ".join(tokens[:first]))
        up_to = _plain(" ".join(tokens[: last + 1]))
        text = _plain(passage[0])
        start = len(before) + text[len(before) :].startswith(" ")
        yield Example(_plain(without[1]), text, 0.0)
        yield Example(_plain(asked[1]), text, 1.0, start, len(up_to))


def _from_training_file(extra: Path) -> Iterator[Example]:
    """The file's own questions without an answer, and those whose twin it holds."""
    path = extra / "squad_train_parts.json"
    if not path.exists():
        return
    known = (extra / "unansq-train-answerable-questions.txt").exists()
    pairs = _pairs(extra, "train") if known else []
    twins = {_key(asked[1]): without[1] for asked, without in pairs}
    for article in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            text = paragraph["context"]
            wanting = any(one.get("is_impossible") for one in paragraph["qas"])
            for one in paragraph["qas"]:
                twin = twins.get(_key(one["question"]))
                if one.get("is_impossible"):
                    yield Example(one["question"].strip(), text, 0.0)
                    continue
                if twin is not None:
                    yield Example(_plain(twin), text, 0.0)
                if twin is not None or wanting:
                    yield _answered(one, text)


def _answered(asked: dict[str, Any], text: str) -> Example:
    question = asked["question"].strip()
    if not asked["answers"]:
        return Example(question, text, 1.0)
    answer = asked["answers"][0]
    start = answer["answer_start"]
    return Example(question, text, 1.0, start, start + len(answer["text"]))


def _pairs(extra: Path, part: str) -> list[tuple[_Line, _Line]]:
    """Lines of a question with its answer, and of the one that was written after it."""
    asked = _lines(extra / f"unansq-{part}-answerable-questions.txt")
    without = _lines(extra / f"unansq-{part}-unanswerable-questions.txt")
    return list(zip(asked, without, strict=True))


def _lines(path: Path) -> list[_Line]:
    return [line.split("\t") for line in path.read_text("utf-8").split("\n") if line]


def _plain(tokens: str) -> str:
    """Without the spaces before marks; the reader's words have no case."""
    return _TEXT_BEFORE.sub("", tokens).replace("( ", "(").strip()


def _key(question: str) -> str:
    return re.sub(r"[^a-z0-9]", "", question.lower())
