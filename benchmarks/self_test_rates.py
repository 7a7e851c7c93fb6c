"""What ``validate --stress-test`` shows of the validators: ``python -m
benchmarks.self_test_rates DATA_DIR``.

By kind, of near misses made by rule how many are not called Yes, and of texts with the answer how
many are, on the questions of a set of `validation_quality.py`: a JSON line a set and validator.
``--cache FILE`` keeps what the reader says.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.reader_near_misses import answered_questions
from benchmarks.score_cache import ScoreCache
from benchmarks.validation_quality import DATA
from ragbench import build_validator
from ragbench.validators.self_test import SelfTest, self_test
from ragbench.validators.validator import Validator


def main() -> None:
    given = _arguments()
    if given.cache is not None:
        ScoreCache(given.cache, only_known=False).install()
    for name in given.only:
        pairs = answered_questions(DATA[name][0](given.data))
        for key in given.validators:
            found = self_test(_validator(key, given.reader), pairs, limit=given.limit)
            print(json.dumps({"data": name, "validator": key, **_rates(found)}), flush=True)


def _validator(name: str, reader: str | None) -> Validator:
    other = reader is not None and name == "local"
    return build_validator({"name": name, "reader": reader} if other else name)


def _rates(found: SelfTest) -> dict[str, object]:
    sides = {
        side: [one.right for one in found.kinds if one.answers is answers]
        for side, answers in (("near misses", False), ("answers", True))
    }
    totals = {
        side: f"{sum(one.count for one in shares)} of {sum(one.total for one in shares)}"
        for side, shares in sides.items()
    }
    kinds = {one.kind: f"{one.right.count} of {one.right.total}" for one in found.kinds}
    return {"questions": found.questions, **totals, **kinds}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--validators", nargs="+", default=["lexical", "local"])
    parser.add_argument("--reader", help="a folder, instead of the reader that comes along")
    parser.add_argument("--only", nargs="+", default=["xquad_en", "pellorin"], help="data sets")
    parser.add_argument("--limit", type=int, default=40, help="of each kind")
    parser.add_argument("--cache", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
