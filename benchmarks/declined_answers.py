"""How well answers that decline are told by how they read: ``python -m
benchmarks.declined_answers DATA_DIR``.

DATA_DIR holds ``mtragun_reference.jsonl`` (answers that people wrote, with what they say of the
question), ``mtrag_human_eval.json`` (answers of two models), ``answers/*.jsonl`` (answers that
people called right or wrong: who is right opens with no refusal) and ``*.passages.jsonl``, whose
sentences are answers none of which declines, save for those that say what is not known.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragbench.text.declining import Reading, read_answer
from ragbench.text.sentences import split_sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    data: Path = parser.parse_args().data
    print("answers\tof\topen with a refusal\tdecline\tin part\tof all")
    _print("written by people", _written(data))
    _print("of models", _of_models(data))
    for file in sorted(data.glob("answers/*.jsonl")):
        _print(file.stem, _judged(file))
    started, count, declined = time.process_time(), 0, 0
    for sentence in _sentences(data):
        count += 1
        declined += read_answer(sentence).declines
    per = (time.process_time() - started) / count * 1e6
    print(f"sentences of passages\t\t\t{declined}\t\t{count:,}\t{per:.0f} us each")


def _print(whose: str, rows: Iterator[tuple[str, Reading]]) -> None:
    found: dict[str, Counter[Reading]] = {}
    for of, reading in rows:
        found.setdefault(of, Counter())[reading] += 1
    for of, counts in sorted(found.items()):
        whole = sum(n for reading, n in counts.items() if reading.declines)
        part = sum(n for reading, n in counts.items() if reading.in_part)
        opening = sum(n for reading, n in counts.items() if reading.opens)
        print(f"{whose}\t{of}\t{opening}\t{whole}\t{part}\t{counts.total()}")


def _written(data: Path) -> Iterator[tuple[str, Reading]]:
    for line in (data / "mtragun_reference.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["answerability"][0], read_answer(_text(row["targets"]))


def _text(targets: Any) -> str:
    first = targets[0] if isinstance(targets, list) else targets
    return str(first["text"] if isinstance(first, dict) else first)


def _of_models(data: Path) -> Iterator[tuple[str, Reading]]:
    whole = json.loads((data / "mtrag_human_eval.json").read_text(encoding="utf-8"))
    said = {task["task_id"]: task["Answerability"][0] for task in whole["tasks"]}
    for row in whole["evaluations"]:
        if row["model_id"] != "reference":
            yield said[row["task_id"]], read_answer(row["model_response"])


def _judged(file: Path) -> Iterator[tuple[str, Reading]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield "called right" if row["right"] else "called wrong", read_answer(row["response"])


def _sentences(data: Path) -> Iterator[str]:
    for file in sorted(data.glob("*.passages.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            text = json.loads(line)["text"]
            for span in split_sentences(text):
                sentence = text[span.start : span.end]
                if any(letter.isalpha() for letter in sentence):
                    yield sentence


if __name__ == "__main__":
    main()
