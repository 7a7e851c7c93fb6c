"""How many contradictions are seen: ``python -m benchmarks.conflict_rate DATA_DIR``.

RGB gives lines that answer a question and the same lines with the answer exchanged. Two right and
two wrong lines must conflict, two right ones must not. Every line is quoted, so that the figures
are those of the comparison alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.validation_pools import rows
from ragbench import Chunk
from ragbench.validators.lexical import LexicalValidator

LINES = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    validator = LexicalValidator(relevant=0.05)
    found = false = 0
    questions = rows(parser.parse_args().data / "rgb_en_fact.jsonl")
    for row in questions:
        right, wrong = _chunks(row["positive"], "right"), _chunks(row["positive_wrong"], "wrong")
        found += any(
            one.first.chunk_id.split("-")[0] != one.second.chunk_id.split("-")[0]
            for one in validator.validate(row["query"], [*right, *wrong]).conflicts
        )
        false += bool(validator.validate(row["query"], right).conflicts)
    print(json.dumps({"questions": len(questions), "found": found, "false": false}))


def _chunks(texts: list[str], name: str) -> list[Chunk]:
    return [Chunk(id=f"{name}-{at}", text=text) for at, text in enumerate(texts[:LINES])]


if __name__ == "__main__":
    main()
