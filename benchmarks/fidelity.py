"""Questions made offline, and what `ragbench fidelity` finds of them.

Run from the root of the project::

    python benchmarks/fidelity.py CASES CORPUS [--coverage] [--questions 300] [--seed 0]

For each maker: tau to the order by the real questions with its interval, the real MRR that its
choice costs, the inflation, and the real questions that rank as well. None of these makers is
shipped: they measure the card. ``--coverage`` draws small sets from the scores of all questions,
and counts how often the interval holds the tau of all.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.io.read import read_cases, read_documents
from ragbench.stats.agreement import Scored, kendall_tau, tau_interval
from ragbench.text.sentences import split_sentences
from ragbench.text.tokens import tokenise
from ragbench.verbs.fidelity import Fidelity, fidelity, rank

Maker = Callable[[Document, str, random.Random, Counter[str]], str]


def copied(_: Document, sentence: str, source: random.Random, __: Counter[str]) -> str:
    words = sentence.split()
    first = source.randrange(max(1, len(words) - 7))
    return " ".join(words[first : first + 8])


def cloze(_: Document, sentence: str, source: random.Random, __: Counter[str]) -> str:
    words = sentence.split()
    words[source.randrange(len(words))] = "____"
    return " ".join(words)


def template(_: Document, sentence: str, source: random.Random, __: Counter[str]) -> str:
    words = sentence.rstrip(".").split()
    asked = source.choice(("What", "Who", "When", "Where", "How many"))
    return f"{asked} {' '.join(words[len(words) // 2 :])}?"


def clause(_: Document, sentence: str, source: random.Random, __: Counter[str]) -> str:
    return source.choice([one for one in sentence.split(",") if len(one.split()) > 2] or [sentence])


def keywords(rare: bool) -> Maker:
    def make(_: Document, sentence: str, __: random.Random, seen: Counter[str]) -> str:
        def frequency(word: str) -> int:
            return max((seen[token] for token in tokenise(word)), default=0)

        ranked = sorted(set(sentence.split()), key=lambda word: (frequency(word), word))
        return " ".join(ranked[:4] if rare else ranked[4:9] or ranked)

    return make


def titled(document: Document, sentence: str, source: random.Random, seen: Counter[str]) -> str:
    return f"{document.title or ''} {clause(document, sentence, source, seen)}"


MAKERS: dict[str, Maker] = {
    "copied 8 words": copied,
    "cloze": cloze,
    "wh-template": template,
    "one clause": clause,
    "rare keywords": keywords(True),
    "common keywords": keywords(False),
    "title + clause": titled,
}


def made_by(maker: Maker, documents: Sequence[Document], count: int, seed: int) -> list[Case]:
    source = random.Random(seed)
    seen = Counter(token for one in documents for token in set(tokenise(one.text)))
    return [*_made(maker, documents, count, source, seen)]


def _made(
    maker: Maker,
    documents: Sequence[Document],
    count: int,
    source: random.Random,
    seen: Counter[str],
) -> Iterator[Case]:
    while count:
        document = source.choice(documents)
        spans = [document.text[one.start : one.end] for one in split_sentences(document.text)]
        sentences = [one for one in spans if len(one.split()) >= 6]
        if sentences:
            query = maker(document, source.choice(sentences), source, seen)
            yield Case(id=str(count), query=query, reference_context_ids=(document.id,))
            count -= 1


def show(name: str, found: Fidelity) -> None:
    tau, cost = found.tau, found.cost
    figures = tau.value, tau.low, tau.high, cost.mean, found.inflation.value, found.made.copied
    assert None not in figures
    print(
        "{:16} {:5.2f} ({:5.2f} ..{:5.2f})  {:.3f}  {:+.2f}  {:.2f}".format(name, *figures),
        f"{found.equals or '-':>6}  {found.worth}",
    )


def halves(real: Scored) -> tuple[Scored, Scored]:
    """Real questions as if half of them had been made up."""
    order = np.random.default_rng(1).permutation(len(real.sizes))
    parts = (order[: len(order) // 2], order[len(order) // 2 :])
    first, second = (Scored(sums=real.sums[rows], sizes=real.sizes[rows]) for rows in parts)
    return first, second


def coverage(name: str, real: Scored, made: Scored, draws: int = 150) -> None:
    """How often intervals of small sets hold the tau of all questions."""
    true = float(kendall_tau(real.means, made.means)[0])
    source = np.random.default_rng(0)
    for count, others in ((30, 50), (30, 300), (100, 100), (150, 300)):
        held = dict.fromkeys(("percentile", "joined", "width"), 0.0)
        for seed in range(draws):
            some, more = (
                Scored(sums=side.sums[rows], sizes=side.sizes[rows])
                for side, size in ((real, count), (made, others))
                for rows in (source.integers(0, len(side.sizes), size),)
            )
            value = float(kendall_tau(some.means, more.means)[0])
            samples = kendall_tau(some.resampled(seed, 400), more.resampled(seed + draws, 400))
            low, high = np.nanquantile(samples, [0.025, 0.975])
            held["percentile"] += low <= true <= high
            found = tau_interval(value, samples)
            assert found.low is not None
            assert found.high is not None
            held["joined"] += found.low <= true <= found.high
            held["width"] += found.high - found.low
        shares = ", ".join(f"{name} {times / draws:.3f}" for name, times in held.items())
        print(f"{name:16} tau {true:5.2f}, {count} real, {others} made: {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases")
    parser.add_argument("corpus")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--coverage", action="store_true")
    asked = parser.parse_args()
    real, documents = [*read_cases(asked.cases)], [*read_documents(asked.corpus)]
    for at, (name, maker) in enumerate(MAKERS.items()):
        made = made_by(maker, documents, asked.questions, asked.seed)
        ranked = rank(made, real, documents)
        if asked.coverage:
            first, second = ranked.real.scored, ranked.made.scored
            if not at:
                coverage("real half", *halves(first))
            coverage(name, first, second)
            continue
        found = fidelity(ranked, asked.seed)
        if not at:
            draws = ", ".join(f"{one.questions}: {one.tau:.2f}" for one in found.draws)
            print(f"{found.real.questions} real questions; tau of so many of them: {draws}")
            print(f"{'maker':16} {'tau':>5} {'':16} cost  infl.  copied  as many real")
        show(name, found)


if __name__ == "__main__":
    main()
