"""Near misses by kind: ``python -m benchmarks.near_miss_kinds DATA``.

A question and the chunk that answers it become a near miss by one change of the question, so that
the chunk is on the topic and holds no answer. Six kinds, of texts and questions that people wrote
(xquad, clapnq, covidqa); what a rule cannot change safely it leaves alone. For each kind and
validator a JSON line: how many of the changed questions are Yes on that chunk (each of them is
wrong), and how many of the same questions before the change (each of them is right).

No threshold, rule or weight is fitted on these pairs. The reader's training has near misses of its
own, of other articles (`train_validator`): other names, numbers and passages of the same page among
them. So a low figure says less of a kind that it has seen.

``--write FILE`` writes such pairs for a next round of training, of the articles of squad2 that
weights may be learned from; ``--without KIND`` leaves a kind out, to be measured on it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.validation_pools import (
    Collection,
    Labelled,
    clapnq,
    covidqa,
    squad_half,
    xquad,
)
from ragbench import Chunk, build_validator

COLLECTIONS = (xquad, clapnq, covidqa)
MOST = 40
"""Near misses of a kind and data set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredChunk:
    """A question with a chunk that answers it."""

    question: str
    chunk: Chunk
    answers: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """What the rules take other names, units and questions from."""

    pairs: Sequence[AnsweredChunk]
    siblings: Mapping[str, Sequence[AnsweredChunk]]
    """By document its pairs."""


def material_of(collection: Collection) -> Material:
    """The questions of a collection with their chunks, as far as these are chunks of it."""
    chunk_of = {chunk.id: chunk for chunk in collection.chunks}
    pairs: list[AnsweredChunk] = []
    siblings: dict[str, list[AnsweredChunk]] = {}
    for question in collection.questions:
        chunk = _gold_chunk(question, chunk_of)
        if chunk is not None:
            pair = AnsweredChunk(question=question.text, chunk=chunk, answers=question.answers)
            pairs.append(pair)
            siblings.setdefault(chunk.document_id or chunk.id, []).append(pair)
    return Material(pairs=pairs, siblings=siblings)


def _gold_chunk(question: Labelled, chunk_of: Mapping[str, Chunk]) -> Chunk | None:
    """The one chunk that holds the answer; None where there are several, or it was a duplicate."""
    if len(question.gold) != 1:
        return None
    return chunk_of.get(next(iter(question.gold)))


# --- the kinds: each gives the changed question, or None where it cannot be changed safely

_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*")
"""A name within a sentence; the first word of a question has a capital in any case."""
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_COUNTED = re.compile(r"(?i)\bhow many ([a-z]+)\b")
_GROUPS = (
    ("men", "women"), ("boys", "girls"), ("children", "adults"), ("students", "teachers"),
    ("patients", "doctors"), ("humans", "animals"), ("mice", "rabbits"), ("players", "coaches"),
    ("soldiers", "civilians"), ("parents", "neighbours"), ("workers", "owners"),
    ("male", "female"), ("people", "companies"), ("cells", "proteins"), ("viruses", "bacteria"),
)  # fmt: skip
_RELATIONS = (
    ("founded", "visited"), ("wrote", "translated"), ("born", "buried"), ("invented", "sold"),
    ("discovered", "denied"), ("won", "lost"), ("built", "repaired"), ("causes", "prevents"),
    ("caused", "prevented"), ("leads", "ends"), ("sings", "paints"), ("plays", "writes"),
    ("played", "directed"), ("located", "mapped"), ("produced", "tested"), ("created", "copied"),
    ("led", "opposed"), ("used", "stored"), ("found", "lost"), ("started", "financed"),
)  # fmt: skip


def other_entity(pair: AnsweredChunk, material: Material, draw: random.Random) -> str | None:
    """The first name of the question, exchanged for a name that the chunk does not have."""
    name = _NAME.search(pair.question)
    if name is None:
        return None
    names: list[str] = []
    for other in draw.sample(material.pairs, min(40, len(material.pairs))):
        names += _NAME.findall(other.question)
    for candidate in names:
        if not _holds_word_of(candidate, f"{pair.chunk.text} {pair.question}"):
            return pair.question.replace(name[0], candidate)
    return None


def other_attribute(pair: AnsweredChunk, material: Material, draw: random.Random) -> str | None:
    """The question of another chunk of the document, whose answer this chunk does not hold."""
    family = material.siblings[pair.chunk.document_id or pair.chunk.id]
    for other in draw.sample(family, min(10, len(family))):
        is_elsewhere = other.chunk.id != pair.chunk.id
        if is_elsewhere and not any(answer in pair.chunk.text for answer in other.answers):
            return other.question
    return None


def other_time(pair: AnsweredChunk, _: Material, draw: random.Random) -> str | None:
    """The year of the question, moved to one that the chunk does not have."""
    year = _YEAR.search(pair.question)
    if year is None:
        return None
    moved = str(int(year[0]) - draw.randint(3, 17))
    if moved in pair.chunk.text:
        return None
    return pair.question.replace(year[0], moved)


def other_unit(pair: AnsweredChunk, material: Material, draw: random.Random) -> str | None:
    """What the question counts, exchanged for a thing that the chunk does not name."""
    counted = _COUNTED.search(pair.question)
    if counted is None:
        return None
    for other in draw.sample(material.pairs, len(material.pairs)):
        unit = _COUNTED.search(other.question)
        if unit and not _holds_word_of(unit[1], f"{pair.chunk.text} {pair.question}"):
            return _COUNTED.sub(f"how many {unit[1]}", pair.question)
    return None


def other_group(pair: AnsweredChunk, _: Material, draw: random.Random) -> str | None:
    """The people or things that the question is about, exchanged for others."""
    return _exchanged(pair, _GROUPS)


def other_relation(pair: AnsweredChunk, _: Material, draw: random.Random) -> str | None:
    """The verb of the question, exchanged for one that the chunk does not say."""
    return _exchanged(pair, _RELATIONS)


def _exchanged(pair: AnsweredChunk, table: Sequence[tuple[str, str]]) -> str | None:
    """The question with a word of a table exchanged for its counterpart, either way."""
    for word, counterpart in (*table, *[(second, first) for first, second in table]):
        in_question = re.search(rf"(?i)\b{word}\b", pair.question)
        if in_question and not _holds_word_of(counterpart, pair.chunk.text):
            return re.sub(rf"(?i)\b{word}\b", counterpart, pair.question)
    return None


def _holds_word_of(name: str, text: str) -> bool:
    """Whether a text has one of the words of a name, in any ending."""
    return any(re.search(rf"(?i)\b{re.escape(word[:5])}", text) for word in name.split())


Kind = Callable[[AnsweredChunk, Material, random.Random], str | None]
KINDS: Mapping[str, Kind] = {
    "other entity": other_entity,
    "other attribute": other_attribute,
    "other time": other_time,
    "other group": other_group,
    "other relation": other_relation,
    "other unit": other_unit,
}


def near_misses(kind: Kind, material: Material, seed: int) -> Iterator[tuple[AnsweredChunk, str]]:
    """Pairs with their changed questions, in random order."""
    draw = random.Random(seed)
    for pair in draw.sample(material.pairs, len(material.pairs)):
        changed = kind(pair, material, draw)
        if changed is not None:
            yield pair, changed


def training_rows(
    material: Material, without: Sequence[str], seed: int
) -> Iterator[dict[str, object]]:
    """Each near miss, and the pair that it was made of, as lines of a file."""
    for kind, change in KINDS.items():
        if kind in without:
            continue
        for pair, changed in near_misses(change, material, seed):
            text = pair.chunk.text
            yield {"kind": kind, "question": pair.question, "text": text, "answers": True}
            yield {"kind": kind, "question": changed, "text": text, "answers": False}


def measured_row(
    name: str, kind: str, materials: Sequence[Material], *, seed: int, show: bool
) -> dict[str, object]:
    """How often a validator is misled by a kind, and how often it finds the answers before."""
    validator = build_validator(name)
    count = 0
    wrong = 0
    right = 0
    for material in materials:
        for pair, changed in islice(near_misses(KINDS[kind], material, seed), MOST):
            count += 1
            right += validator.validate(pair.question, [pair.chunk]).answer_present
            if validator.validate(changed, [pair.chunk]).answer_present:
                wrong += 1
                if show:
                    print(f"{changed}\n    {pair.chunk.text[:200]}")
    return {
        "validator": name,
        "kind": kind,
        "pairs": count,
        "wrong yes": wrong,
        "yes before the change": right,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--validators", nargs="+", default=["local", "lexical"])
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--show", action="store_true", help="also print each wrong Yes")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--without", nargs="+", default=[], choices=KINDS)
    options = parser.parse_args()
    if options.write is not None:
        material = material_of(squad_half(options.data, held_out=False))
        rows = training_rows(material, options.without, options.seed)
        options.write.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        return
    materials = [material_of(read(options.data)) for read in COLLECTIONS]
    for name in options.validators:
        for kind in KINDS:
            row = measured_row(name, kind, materials, seed=options.seed, show=options.show)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
