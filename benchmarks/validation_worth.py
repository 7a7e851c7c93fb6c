"""What the words of the validators are worth: ``python -m benchmarks.validation_worth DATA_DIR``.

Eight domains, seventy to two hundred and forty pools each, about half of them without the answer. A
logistic curve over seven domains flattens the probabilities, and the eighth shows how often each
word is true there: all shares are of pools in domains that were left out. For the curve each domain
counts the same.

A high probability among many chunks is worth less than among few. So the curve also has a term for
the number of chunks, and goes through smaller pools, too, that are drawn from the ones of a domain:
otherwise the number would only tell the domains apart. Shares are of whole pools alone.

``--write`` writes ``ragbench/validators/worth.toml``: the curve through all eight, where a Yes and
each word begin, and the shares. ``--cache FOLDER`` keeps the probabilities: a second run takes a
second.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.adjudication import adjudicated
from benchmarks.train_validator.everyday import items
from benchmarks.validation_pools import (
    PROTOCOLS,
    Collection,
    Labelled,
    Pool,
    build_pools,
    clapnq,
    covidqa,
    pellorin,
    rows,
    squad_half,
    xquad,
)
from ragbench import Chunk
from ragbench.validators.calibrate import expected_calibration_error
from ragbench.validators.calibration import logistic, logit, shipped
from ragbench.validators.lexical import LexicalValidator
from ragbench.validators.local import LocalValidator
from ragbench.validators.verdict import NO_ANSWER
from ragbench.validators.worth import LARGEST_POOL, shipped_worth

WORTH = Path(__file__).parents[1] / "ragbench" / "validators" / "worth.toml"
VALIDATORS = {"local": LocalValidator, "lexical": LexicalValidator}
RATED = ("trecdl", "subjqa")
"""Pools that are rated as they are: of a web search, and of reviews."""
EVERYDAY = "everyday"
"""Questions of daily work with one text each, written for ragbench: the part that no model learned
from. Their near misses share most words with the question by intent, so that words alone are wrong
there more often than right: no curve of `lexical` goes through them."""
BUILT: Mapping[str, tuple[Callable[[Path], Collection], tuple[str, ...], int]] = {
    "clapnq": (clapnq, PROTOCOLS[1:], 40),
    "xquad_en": (xquad, PROTOCOLS[:2], 40),
    "covidqa": (covidqa, PROTOCOLS[:2], 40),
    "squad2": (lambda folder: squad_half(folder, held_out=True), PROTOCOLS[2:], 70),
    "pellorin": (lambda _: pellorin(), PROTOCOLS[2:], 36),
}
"""Pools that are built: data, protocols, questions of each kind. Of squad2 and pellorin the
questions are written to have no answer; what answers them in pellorin is often said twice, so that
taking a passage away leaves an answer there."""
PRECISION = 0.85
"""Of a Yes, over all left-out domains together."""
BEGINS = {"likely": 0.5, "perhaps": 0.3, "probably not": 0.12, "no": 0.0}
"""The probability from which on each word holds, below that of a Yes."""
FEWEST_OF_WORD = 20
"""Pools that a word must have: fewer join the word below, and at the end the one above."""
FEWEST_YES = 100
"""Pools that a Yes must be said of for its precision to be more than chance."""
SMALLER = {"local": (1, 2, 3, 5, 10), "lexical": ()}
"""By validator the chunks of the pools that are drawn from larger ones, once each. None for
`lexical`, which has no term for their number: to words the near miss that a retriever puts first is
as good as an answer, and a drawn pool holds such a chunk by chance only."""
FEWEST = 8
"""Pools of a word in a domain from which on its share there is told."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What the validators say of a pool, before any curve."""

    id: str
    present: bool
    gold: Sequence[str]
    """The chunks that hold the answer."""
    steep: Mapping[str, float]
    """By validator the probability of an answer as it was learned, on encyclopaedia articles."""
    chunks: Mapping[str, Mapping[str, float]]
    """By validator that of each chunk, likewise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    """One validator's probabilities in one domain, of whole pools or of smaller ones."""

    name: str
    steep: Numbers
    sizes: Numbers
    """How many chunks each pool has."""
    present: Numbers
    """1 where the answer is there, else 0."""
    smaller: Domain | None = None
    """Pools that were drawn from these."""

    @property
    def learned_from(self) -> Domain:
        """All that a curve goes through."""
        if self.smaller is None:
            return self
        return Domain(
            name=self.name,
            steep=np.concatenate([self.steep, self.smaller.steep]),
            sizes=np.concatenate([self.sizes, self.smaller.sizes]),
            present=np.concatenate([self.present, self.smaller.present]),
        )

    @property
    def weights(self) -> Numbers:
        """Of each pool, so that all domains count the same."""
        return np.full(len(self.steep), 1 / len(self.steep))


def pools_of(name: str, data: Path) -> list[Pool]:
    """The pools of a domain; those of built ones with the labels of the second reading."""
    if name == EVERYDAY:
        return list(_everyday())
    if name in RATED:
        return list(_rated(name, data))
    read, protocols, number = BUILT[name]
    pools = build_pools(read(data), protocols, limit=150, seed=23)
    draw = random.Random(5)
    chosen: set[str] = set()
    for has_answer in (True, False):
        ids = sorted({one.question.id for one in pools if bool(one.question.gold) is has_answer})
        chosen.update(draw.sample(ids, min(number, len(ids))))
    return [one for one in adjudicated(_only(pools, chosen)) if one is not None]


def _everyday() -> Iterator[Pool]:
    """Pools of one chunk: it answers the question, or it is a near miss of one of two kinds."""
    held_out = [item for together in items(held_out=True) for item in together]
    for place, item in enumerate(random.Random(1).sample(held_out, 120)):
        aspect, _, near = item.others
        for text, answers in ((item.answers[0], True), ((aspect, near)[place % 2], False)):
            chunk = Chunk(id="text", text=text)
            gold = frozenset([chunk.id] if answers else [])
            yield _plain_pool(f"{place}", item.query, gold, [chunk])


def _only(pools: Sequence[Pool], chosen: set[str]) -> list[Pool]:
    return [pool for pool in pools if pool.question.id in chosen]


def _rated(name: str, data: Path) -> Iterator[Pool]:
    """Pools that come with a rating."""
    gold = {row["query_id"]: row["gold"] for row in rows(data / "pools" / f"{name}.gold.jsonl")}
    for row in rows(data / "pools" / f"{name}.pools.jsonl"):
        chunks = [Chunk(id=one["id"], text=one["text"]) for one in row["chunks"]]
        yield _plain_pool(row["query_id"], row["query"], frozenset(gold[row["query_id"]]), chunks)


def _plain_pool(id_: str, query: str, gold: frozenset[str], chunks: Sequence[Chunk]) -> Pool:
    question = Labelled(id=id_, text=query, gold=gold, own="", answers=(), spans=(), reference="")
    return Pool(protocol="rated", question=question, chunks=tuple(chunks), present=bool(gold))


def readings_of(name: str, data: Path, cache: Path | None) -> list[Reading]:
    """The readings of a domain, from the cache where they are there."""
    kept = None if cache is None else cache / f"{name}.json"
    if kept is not None and kept.exists():
        return [Reading(**row) for row in json.loads(kept.read_text("utf-8"))]
    validators = {key: make() for key, make in VALIDATORS.items()}
    readings: list[Reading] = []
    for pool in pools_of(name, data):
        steep: dict[str, float] = {}
        chunks: dict[str, dict[str, float]] = {}
        for key, validator in validators.items():
            verdict = validator.validate(pool.question.text, pool.chunks)
            size = len(pool.chunks)
            steep[key] = _steep(key, verdict.answer_probability, size)
            chunks[key] = {}
            for chunk_id, probability in verdict.relevance.items():
                chunks[key][chunk_id] = _steep(key, probability, size)
        gold = sorted(pool.question.gold) if pool.present else []
        readings.append(
            Reading(
                id=pool.question.id, present=pool.present, gold=gold, steep=steep, chunks=chunks
            )
        )
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([asdict(one) for one in readings]), "utf-8")
    return readings


def _is_on_curve(probability: float) -> bool:
    """Whether a curve moves a probability: not what a slot objects to, and no certainty."""
    return 0 < probability < 1 and probability != NO_ANSWER


def _steep(validator: str, probability: float, size: int) -> float:
    """A probability before the curve that ships, in a pool of so many chunks."""
    if not _is_on_curve(probability):
        return probability
    worth = shipped_worth(validator)
    offset = worth.logit(0.0, size)
    return logistic((logit(probability) - offset) / worth.slope)


def domain_of(name: str, validator: str, readings: Sequence[Reading]) -> Domain:
    """A domain of whole pools, with the smaller ones that are drawn from them."""
    whole_sizes = [len(reading.chunks[validator]) for reading in readings]
    if not SMALLER[validator]:
        whole_sizes = [1] * len(readings)  # the logarithm is 0: there is no such term
    whole = Domain(
        name=name,
        steep=np.array([reading.steep[validator] for reading in readings]),
        sizes=np.array(whole_sizes),
        present=np.array([float(reading.present) for reading in readings]),
    )
    draw = random.Random(4)
    steep: list[float] = []
    sizes: list[int] = []
    present: list[float] = []
    for reading in readings:
        all_sizes = len(reading.chunks[validator])
        gold = [chunk_id for chunk_id in reading.gold if chunk_id in reading.chunks[validator]]
        for size in SMALLER[validator]:
            if size < all_sizes:
                steep.append(_steep_of_some(reading, validator, size, gold, draw))
                sizes.append(size)
                present.append(float(bool(gold)))
    if not steep:
        return whole
    smaller = Domain(
        name=name, steep=np.array(steep), sizes=np.array(sizes), present=np.array(present)
    )
    return replace(whole, smaller=smaller)


def _steep_of_some(
    reading: Reading, validator: str, size: int, gold: Sequence[str], draw: random.Random
) -> float:
    """The probability of an answer in some chunks of a pool: one that holds it, if any, stays."""
    of_chunk = reading.chunks[validator]
    chosen = [draw.choice(gold)] if gold else []
    others = [chunk_id for chunk_id in of_chunk if chunk_id not in chosen]
    chosen += draw.sample(others, size - len(chosen))
    best = max(of_chunk[chunk_id] for chunk_id in chosen)
    if not _is_on_curve(best):
        return best
    # The validator's own term for the number of chunks, which it has learned on articles.
    own_term = float(shipped(validator)["pool"]["weights"].get("size", 0.0))
    fewer = math.log(size / min(len(of_chunk), LARGEST_POOL))
    return logistic(logit(best) + own_term * fewer)


Curve = tuple[float, float, float]
"""Slope, offset, and the factor of the logarithm of how many chunks there are."""


def curve(domains: Sequence[Domain]) -> Curve:
    """The curve through some domains, by Newton's method on the weighted log loss."""
    learned = [domain.learned_from for domain in domains]
    steep = np.concatenate([domain.steep for domain in learned])
    sizes = np.concatenate([domain.sizes for domain in learned])
    present = np.concatenate([domain.present for domain in learned])
    weights = 100 * np.concatenate([domain.weights for domain in learned])
    on_curve = (steep > 0) & (steep != NO_ANSWER)
    columns = _columns(steep[on_curve], sizes[on_curve])
    coefficients = np.array([0.5, 0.0, 0.0])
    for _ in range(50):
        predicted = 1 / (1 + np.exp(-(columns @ coefficients)))
        gradient = columns.T @ (weights[on_curve] * (predicted - present[on_curve]))
        curvature = weights[on_curve] * predicted * (1 - predicted)
        hessian = (columns.T * curvature) @ columns + 1e-3 * np.eye(3)
        coefficients = coefficients - np.linalg.solve(hessian, gradient)
    slope, offset, size = coefficients.tolist()
    return slope, offset, size


def flattened(domain: Domain, fitted: Curve) -> Numbers:
    """The probabilities of a domain on a curve."""
    logits = _columns(domain.steep, domain.sizes) @ np.array(fitted)
    flat = 1 / (1 + np.exp(-logits))
    fixed = (domain.steep <= 0) | (domain.steep == NO_ANSWER)
    return np.where(fixed, domain.steep, flat)


def _columns(probabilities: Numbers, sizes: Numbers) -> Numbers:
    """What the terms of a curve are multiplied with, a row for each pool."""
    clipped = np.clip(probabilities, 1e-6, 1 - 1e-6)
    logits = np.log(clipped / (1 - clipped))
    logs: Numbers = np.log(np.minimum(sizes, LARGEST_POOL))
    columns: Numbers = np.stack([logits, np.ones_like(logits), logs], axis=1)
    return columns


def begin_of_yes(domains: Sequence[Domain], flat: Sequence[Numbers]) -> float | None:
    """The lowest probability from which on a Yes has its precision; None where none has."""
    probabilities = np.concatenate(flat)
    present = np.concatenate([one.present for one in domains])
    order = np.argsort(-probabilities, kind="stable")
    called = np.arange(1, len(order) + 1)
    reached = np.flatnonzero(np.cumsum(present[order]) >= PRECISION * called)
    # Of so few that chance decides, none.
    enough = reached[reached >= FEWEST_YES]
    return float(probabilities[order][enough[-1]]) if len(enough) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A validator over all domains, each left out once."""

    slope: float
    offset: float
    size: float
    present: float
    words: dict[str, float]
    """Where each word begins, the surest first."""
    flat: Mapping[str, Numbers]
    """By domain the probabilities on the curve through the others."""
    domains: Mapping[str, Domain]

    def bounds(self) -> Iterator[tuple[str, float, float]]:
        """Each word, from where, up to where."""
        above = 2.0
        for word, begin in self.words.items():
            yield word, begin, above
            above = begin

    def shares(self, low: float, high: float) -> dict[str, tuple[int, int]]:
        """By domain how many pools are between two probabilities, and how many hold an answer."""
        counted: dict[str, tuple[int, int]] = {}
        for name, flat in self.flat.items():
            inside = (flat >= low) & (flat < high)
            counted[name] = int(self.domains[name].present[inside].sum()), int(inside.sum())
        return counted

    def pooled(self, low: float, high: float) -> tuple[float, float]:
        """The share that holds an answer between two probabilities, and of all answers those."""
        counted = self.shares(low, high).values()
        hits = sum(hits for hits, _ in counted)
        called = sum(count for _, count in counted)
        positive = sum(float(one.present.sum()) for one in self.domains.values())
        return hits / max(1, called), hits / positive


def measure(domains: Mapping[str, Domain], learned: float) -> Measured:
    """Fits the curve without each domain in turn, and with all of them.

    Args:
        learned: where a Yes begins if no probability has its precision, before the curve.
    """
    flat: dict[str, Numbers] = {}
    for name, domain in domains.items():
        others = [one for other, one in domains.items() if other != name]
        flat[name] = flattened(domain, curve(others))
    slope, offset, size = curve(list(domains.values()))
    begin = begin_of_yes(list(domains.values()), list(flat.values()))
    words = dict(BEGINS)
    present = logistic(slope * logit(learned) + offset + size * math.log(LARGEST_POOL))
    if begin is not None:
        present = begin
        words = {"yes": round(begin, 3), **BEGINS}
    measured = Measured(
        slope=round(slope, 4),
        offset=round(offset, 4),
        size=round(size, 4),
        present=round(present, 3),
        words=words,
        flat=flat,
        domains=domains,
    )
    for word, low, high in list(measured.bounds()):
        if sum(count for _, count in measured.shares(low, high).values()) < FEWEST_OF_WORD:
            del words[word]
    words[list(words)[-1]] = 0.0
    # A last word that was true no less often than the one above it says nothing of its own.
    *_, above, last = [measured.pooled(low, high)[0] for _, low, high in measured.bounds()]
    if last >= above:
        words.popitem()
        words[list(words)[-1]] = 0.0
    return measured


def toml_of(measured: Mapping[str, Measured]) -> str:
    """The file that ships."""
    lines = [
        "# What the words of a validator are worth: written by",
        "# `python -m benchmarks.validation_worth DATA_DIR --write`, and by nothing else.",
        "# share: of the pools with that word those that held the answer, each in a domain",
        "# that the curve (slope, offset, size) was not fitted on;",
        "# low and high: in the worst and the best domain with eight such pools or more.",
    ]
    for name, one in measured.items():
        listed = ", ".join(f'"{domain} {len(row.steep)}"' for domain, row in one.domains.items())
        lines += ["", f"[{name}]", f"domains = [{listed}]"]
        lines += [f"slope = {one.slope}", f"offset = {one.offset}", f"size = {one.size}"]
        lines += [f"present = {one.present}"]
        for word, low, high in one.bounds():
            counted = one.shares(low, high)
            told = [hits / count for hits, count in counted.values() if count >= FEWEST]
            share, _ = one.pooled(low, high)
            lines += [
                "",
                f"[[{name}.words]]",
                f'word = "{word}"',
                f"at_least = {low}",
                f"share = {share:.3f}",
                f"low = {min(told):.3f}",
                f"high = {max(told):.3f}",
                f"pools = {sum(count for _, count in counted.values())}",
            ]
    return "\n".join(lines) + "\n"


_COLUMNS = (
    "domain", "pools", "slope without it", "precision of a Yes", "recall", "recall at 98 %",
    "calibration error before", "after",
)  # fmt: skip


def report(name: str, one: Measured) -> Iterator[str]:
    """The tables of docs/measured, as Markdown."""
    names = list(one.domains)
    fitted = f"slope {one.slope}, offset {one.offset}, size {one.size}"
    yield f"`{name}`: {fitted}, Yes from {one.present}"
    yield ""
    yield f"| word | together | {' | '.join(names)} |"
    yield f"|---|{'---|' * (len(names) + 1)}"
    for word, low, high in one.bounds():
        cells = [_share(*counts) for counts in one.shares(low, high).values()]
        yield f"| {word} ({low:g}) | {one.pooled(low, high)[0]:.2f} | {' | '.join(cells)} |"
    yield ""
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"|{'---|' * len(_COLUMNS)}"
    for key, domain in one.domains.items():
        hits, called = one.shares(one.present, 2.0)[key]
        positive = int(domain.present.sum())
        others = [row for other, row in one.domains.items() if other != key]
        before, after = (
            expected_calibration_error(values.tolist(), (domain.present > 0).tolist())
            for values in (domain.steep, one.flat[key])
        )
        precision = f"{hits / called:.2f}" if called else "-"
        yield (
            f"| {key} | {len(domain.steep)} | {curve(others)[0]:.2f} | {precision} | "
            f"{hits / positive:.2f} | {_recall_at(domain, 0.98):.2f} | {before:.2f} | {after:.2f} |"
        )
    right, found = one.pooled(one.present, 2.0)
    every = np.concatenate(list(one.flat.values()))
    labels = np.concatenate([row.present for row in one.domains.values()]) > 0
    error = expected_calibration_error(every.tolist(), labels.tolist())
    yield (
        f"| together | {len(every)} | {one.slope} | {right:.2f} | {found:.2f} | | | {error:.2f} |"
    )


def _share(hits: int, count: int) -> str:
    return f"{hits} of {count}" if count else "-"


def _recall_at(domain: Domain, precision: float) -> float:
    """The most answers that any threshold on the domain itself finds with a precision."""
    order = np.argsort(-domain.steep, kind="stable")
    hits = np.cumsum(domain.present[order])
    named = np.arange(1, len(order) + 1)
    ranked = domain.steep[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    good = (hits >= precision * named) & last
    return float(hits[good].max() / domain.present.sum()) if good.any() else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    readings = {
        name: readings_of(name, given.data, given.cache) for name in (*RATED, *BUILT, EVERYDAY)
    }
    measured: dict[str, Measured] = {}
    for key in VALIDATORS:
        domains = {
            name: domain_of(name, key, of_domain)
            for name, of_domain in readings.items()
            if (key, name) != ("lexical", EVERYDAY)
        }
        learned = float(shipped(key)["thresholds"]["present"])
        measured[key] = measure(domains, learned)
        print("\n".join(report(key, measured[key])), end="\n\n", flush=True)
    if given.write:
        WORTH.write_text(toml_of(measured), "utf-8")


if __name__ == "__main__":
    main()
