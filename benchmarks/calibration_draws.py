"""What few labels do to a validator: ``python -m benchmarks.calibration_draws DATA --cache FILE``.

Of the pools of a set so many are drawn as labels, half with the answer, and calibrated on; the
others show what that changes: F1 and recall of answers, calibration error. A line per set.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

from benchmarks.score_cache import ScoreCache
from benchmarks.validation_pools import build_pools
from benchmarks.validation_quality import DATA
from ragbench.core.validation import Verdict
from ragbench.validators.calibrate import Labelled, calibrate, expected_calibration_error
from ragbench.validators.calibration import DecisionRule
from ragbench.validators.local import LocalValidator

Row = tuple[Verdict, bool, frozenset[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="+", default=["xquad_en", "clapnq"])
    parser.add_argument("--labels", type=int, default=50)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args()
    if given.cache is not None:
        ScoreCache(given.cache, only_known=False).install()
    validator = LocalValidator()
    for name in given.only:
        pools = build_pools(DATA[name][0](given.data), ("siblings",), limit=150, seed=23)
        rows: list[Row] = []
        for pool in pools:
            verdict = validator.validate(pool.question.text, pool.chunks)
            gold = pool.question.gold if pool.present else frozenset[str]()
            rows.append((verdict, pool.present, frozenset(gold)))
        found = [_draw(rows, given.labels, seed, validator) for seed in range(given.draws)]
        used = [one for one in found if one is not None]
        print(json.dumps({
            "data": name,
            "labels": given.labels,
            "refused": len(found) - len(used),
            "f1 change, worst to best": sorted(round(f1, 3) for f1, _ in used),
            "calibration error, before and after": [
                round(sum(pair[side] for _, pair in used) / max(1, len(used)), 3) for side in (0, 1)
            ],
        }))  # fmt: skip


def _draw(
    rows: Sequence[Row], labels: int, seed: int, validator: LocalValidator
) -> tuple[float, tuple[float, float]] | None:
    draw = random.Random(seed)
    sides = [[at for at, row in enumerate(rows) if row[1] is side] for side in (True, False)]
    own = {at for side in sides for at in draw.sample(side, labels // 2)}
    given = [
        Labelled(verdict=v, answer_present=there, relevant_chunk_ids=gold)
        for v, there, gold in (rows[at] for at in sorted(own))
    ]
    report = calibrate(given, "local", shipped=validator.limits.thresholds)
    if not report.is_better:
        return None
    rest = [row for at, row in enumerate(rows) if at not in own]
    known = report.calibration
    rule = DecisionRule(scale=known.scale, thresholds=known.thresholds)
    before = [v.answer_probability for v, _, _ in rest]
    after = [rule.on_scale(one) for one in before]
    there = [row[1] for row in rest]
    change = _f1([p >= known.thresholds.present for p in after], there) - _f1(
        [v.answer_present for v, _, _ in rest], there
    )
    errors = [expected_calibration_error(one, there) for one in (before, after)]
    return change, (errors[0], errors[1])


def _f1(called: Sequence[bool], there: Sequence[bool]) -> float:
    hits = sum(a and b for a, b in zip(called, there, strict=True))
    return 2 * hits / max(1, sum(called) + sum(there))


if __name__ == "__main__":
    main()
