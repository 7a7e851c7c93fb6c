"""How often the intervals that labels correct hold what people say.

    python benchmarks/label_coverage.py judges QRELS SCORES      # of a judge's mean
    python benchmarks/label_coverage.py styled QRELS SCORES      # equal systems, one with a style
    python benchmarks/label_coverage.py pairs HUMAN JUDGE        # of a difference

QRELS is data/llmjudge_test_qrel_idx.txt of github.com/llm4eval/LLMJudge, SCORES the folder
submissions/scores of github.com/llm4eval/LLMJudge-benchmark; HUMAN and JUDGE are
human_labeled_data.json and baseline_ragchecker.json of github.com/amazon-science/RAGChecker.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ragbench.stats.corrected import corrected_difference, corrected_mean

SIZES = (20, 30, 50, 100)


def judges_of(qrels: Path, scores: Path) -> tuple[Any, Any, list[str]]:
    """People's grades from 0 to 3, and those of each judge, of the same pairs."""
    rows = [line.split() for line in qrels.read_text("utf-8").splitlines()]
    found = {}
    for file in sorted(scores.glob("*.txt")):
        lines = (line.split() for line in file.read_text("utf-8").splitlines())
        found[file.stem] = {(row[0], row[2]): float(row[3]) for row in lines if len(row) == 4}
    columns = [[known[row[0], row[2]] for row in rows] for known in found.values()]
    return np.array([int(row[3]) for row in rows]), np.array(columns), list(found)


def intervals(h: Any, f: Any, count: int) -> tuple[Any, Any]:
    """As `corrected_mean` of each row, of which the first ``count`` cases have labels."""
    total = f.shape[1]
    hl, fl = h[:, :count], f[:, :count]
    hb, fb = hl.mean(1, keepdims=True), fl.mean(1, keepdims=True)
    spread = ((fl - fb) ** 2).sum(1)
    slope = np.divide(
        ((hl - hb) * (fl - fb)).sum(1), spread, out=np.zeros(len(h)), where=spread > 0
    )
    slope = np.clip(slope, 0, 2)
    residual = hl - slope[:, None] * fl
    level = residual.mean(1)
    mean = np.clip(level + slope * f.mean(1), 0, 1)
    moved = slope[:, None] * (f - f.mean(1, keepdims=True)) / total
    away = np.divide(f.mean(1) - fb[:, 0], spread, out=np.zeros(len(h)), where=spread > 0)
    weight = 1 / count + away[:, None] * (fl - fb)
    moved[:, :count] += (count / (count - 2)) ** 0.5 * (residual - level[:, None]) * weight
    variance = (moved**2).sum(1)
    share = np.maximum(mean * (1 - mean), 0.5 / count * (1 - 0.5 / count))
    varies = (variance > 0) & (np.ptp(residual, axis=1) >= 1e-9)
    effective = np.where(
        varies, np.minimum(share / np.where(varies, variance, 1), 4 * count), count
    )
    square = stdtrit(count - 2, 0.975) ** 2 / effective
    centre = (mean + square / 2) / (1 + square)
    half = np.sqrt(square * (mean * (1 - mean) + square / 4)) / (1 + square)
    return centre - half, centre + half


def judges(qrels: Path, scores: Path, draws: int) -> None:
    grades, columns, _ = judges_of(qrels, scores)
    random = np.random.default_rng(1)
    for least in (1, 2, 3):
        people = (grades >= least).astype(float)
        truth = people.mean()
        for total in (200, 1000):
            for count in SIZES:
                drawn = random.integers(0, len(people), size=(draws, total))
                h = people[drawn]
                held, widths = [], []
                for column in columns:
                    f = column[drawn]
                    low, high = intervals(h, f, count)
                    known = [*h[0, :count], *[None] * (total - count)]
                    one = corrected_mean(list(f[0]), known)
                    assert one is not None and one.low is not None and one.high is not None
                    assert np.allclose((one.low, one.high), (max(0, low[0]), min(1, high[0])))
                    held.append(((low <= truth) & (truth <= high)).mean())
                    widths.append((high - low).mean())
                print(
                    f"rate {truth:.2f}, {total} cases, {count} labels: coverage worst "
                    f"{min(held):.3f}, median {np.median(held):.3f} of {len(held)} judges; "
                    f"width {np.median(widths):.3f}",
                    flush=True,
                )


def styled(qrels: Path, scores: Path, draws: int) -> None:
    """Two systems of which the judge likes the second's style, equal by people or worse by .10."""
    grades, columns, _ = judges_of(qrels, scores)
    random = np.random.default_rng(9)
    h, total = (grades >= 2).astype(float), 300
    for count in SIZES:
        for loss in (0.0, 0.1):
            calls = {"judge": [0, 0], "corrected": [0, 0]}
            for f in columns[::3]:
                b = (f >= 2).astype(float)
                liked = np.where(b > h, 2.0, np.where(b < h, 0.5, 1.0))
                plain = np.ones(len(h))
                for side in (0, 1):
                    for weight in (liked, plain):
                        weight[h == side] *= (h == side).mean() / weight[h == side].sum()
                rate = h.mean()
                liked[h == 1] *= (rate - loss) / rate
                liked[h == 0] *= (1 - rate + loss) / (1 - rate)
                for _ in range(draws):
                    one = random.choice(len(h), total, p=plain / plain.sum())
                    two = random.choice(len(h), total, p=liked / liked.sum())
                    difference = b[two] - b[one]
                    z = difference.mean() / difference.std(ddof=1) * total**0.5
                    calls["judge"][0] += abs(z) > 1.96
                    calls["judge"][1] += z < -1.645
                    known = [*(h[two] - h[one])[:count], *[None] * (total - count)]
                    found = corrected_difference(list(f[two] - f[one]), known, scale=1.0)
                    assert found is not None and found.low is not None and found.high is not None
                    calls["corrected"][0] += not found.low <= 0 <= found.high
                    calls["corrected"][1] += 1 - found.p_above(0.0) <= 0.05
            tries = draws * len(columns[::3])
            say = "called different" if not loss else "found worse (one-sided)"
            at = int(loss > 0)
            print(
                f"worse by {loss:.2f}, {count} labelled pairs of {total}: {say}: "
                + ", ".join(f"{name} {found[at] / tries:.3f}" for name, found in calls.items()),
                flush=True,
            )


def pairs(human: Path, judge: Path, draws: int) -> None:
    """280 pairs of systems' answers, of two people each, and a judge's scores of both."""
    said: dict[int, list[dict[str, Any]]] = {}
    for row in json.loads(human.read_text("utf-8")):
        said.setdefault(int(row["instance_id"]), []).append(row)
    scored = {int(row["instance_id"]): row for row in json.loads(judge.read_text("utf-8"))}
    random = np.random.default_rng(5)
    for name in ("correctness_label", "completeness_label", "overall_label"):
        keys = sorted(scored)
        h = np.array([np.mean([row[name] for row in said[key]]) / 2 for key in keys])
        f = np.array(
            [
                scored[key]["model2"]["ragchecker"][name]
                - scored[key]["model1"]["ragchecker"][name]
                for key in keys
            ]
        )
        for count in SIZES:
            held = alone = human_only = 0
            width = own = 0.0
            for _ in range(draws):
                drawn = random.integers(0, len(keys), 280)
                a, b = h[drawn], f[drawn]
                found = corrected_difference(list(b), [*a[:count], *[None] * (280 - count)])
                assert found is not None and found.low is not None and found.high is not None
                held += found.low <= h.mean() <= found.high
                width += found.high - found.low
                reach = 1.96 * b.std(ddof=1) / 280**0.5
                alone += abs(b.mean() - h.mean()) <= reach
                reach = stdtrit(count - 1, 0.975) * a[:count].std(ddof=1) / count**0.5
                human_only += abs(a[:count].mean() - h.mean()) <= reach
                own += 2 * reach
            print(
                f"{name} (r {np.corrcoef(h, f)[0, 1]:.2f}), {count} labelled pairs of 280: "
                f"corrected {held / draws:.3f}, judge alone {alone / draws:.3f}, people alone "
                f"{human_only / draws:.3f}; width {width / own:.2f} of people alone",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("judges", "styled", "pairs"))
    parser.add_argument("people", type=Path)
    parser.add_argument("judged", type=Path)
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    {"judges": judges, "styled": styled, "pairs": pairs}[given.what](
        given.people, given.judged, given.draws
    )


if __name__ == "__main__":
    main()
