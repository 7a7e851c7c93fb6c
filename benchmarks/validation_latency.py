"""How long a verdict takes: ``python -m benchmarks.validation_latency DATA_DIR``.

Twenty chunks of 150 words of encyclopaedia articles a query, none of them seen before; median and
95th percentile of wall and processor time, in milliseconds. With ``--on-topic`` each chunk begins
with the passage that the question was asked of, so that a reader's second tower is asked of all.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import numpy as np

from benchmarks.validation_pools import rows
from ragbench import Chunk, build_validator

CHUNKS, WORDS = 20, 150


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--validators", nargs="+", default=["lexical", "local"])
    parser.add_argument("--on-topic", action="store_true")
    given = parser.parse_args()
    words = [
        word
        for row in rows(given.data / "squad2_dev_half.passages.jsonl")
        for word in row["text"].split()
    ]
    passages = {
        row["pid"]: row["text"].split() for row in rows(given.data / "xquad_en.passages.jsonl")
    }
    questions = list(rows(given.data / "xquad_en.questions.jsonl"))
    draw = random.Random(7)
    asked = draw.sample(questions, given.queries)
    for name in given.validators:
        validator = build_validator(name)
        validator.validate("Is it there?", [Chunk(id="a", text="It is there.")])  # loads the model
        spent = []
        for question in asked:
            own = passages[question["pid"]] if given.on_topic else []
            starts = [draw.randrange(len(words) - WORDS) for _ in range(CHUNKS)]
            chunks = [
                Chunk(id=str(at), text=" ".join([*own, *words[start : start + WORDS]][:WORDS]))
                for at, start in enumerate(starts)
            ]
            wall, processor = time.perf_counter(), time.process_time()
            validator.validate(question["question"], chunks)
            spent.append((time.perf_counter() - wall, time.process_time() - processor))
        for kind, column in zip(("wall", "processor"), np.array(spent).T, strict=True):
            median, late = np.quantile(column, [0.5, 0.95]) * 1000
            print(f"{name:10} {kind:10} median {median:7.1f} ms   95 % under {late:7.1f} ms")


if __name__ == "__main__":
    main()
