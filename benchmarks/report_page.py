"""What the page of a large run takes: its size, the time to write, to paint and to filter.

    python benchmarks/report_page.py [--cases 10000] [--chunks 10] [--corpus 8000]

Needs Chromium and selenium for the last two. Printed as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragbench import (
    Case,
    Chunk,
    Evidence,
    GenerationResult,
    RAGInterface,
    RetrievalResult,
    evaluate,
    report_of,
)
from ragbench.views.html.page import write_html
from ragbench.views.html.run_page import run_page

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/pages.py

from tests.pages import CHROMIUM, DRIVER, browser

WORDS = ["leave", "office", "notice", "badge", "parking", "travel", "budget", "meter", "gateway"]


class Synthetic(RAGInterface[Any]):
    """Returns chunks of a made corpus by the number in the question."""

    def __init__(self, corpus: list[Chunk], chunks: int) -> None:
        super().__init__()
        self.corpus, self.chunks = corpus, chunks

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return list(self.retrieve_with_metadata(query).contexts)

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        number = int(query.split()[-1])
        picks = [
            self.corpus[(number * 7 + at * 131) % len(self.corpus)] for at in range(self.chunks)
        ]
        return RetrievalResult.from_chunks(picks)

    def generate(self, query: str, contexts: list[str]) -> str:
        return self.generate_with_metadata(query, contexts).response

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        number = int(query.split()[-1])
        if number % 5 == 0:
            return GenerationResult("I don't know.", abstained=True)
        said = contexts[number % 3].split(". ")[0]
        return GenerationResult(said, confidence=number % 100 / 100)


def corpus_of(size: int) -> list[Chunk]:
    """Chunks of about a thousand letters."""
    draw = random.Random(0)
    return [
        Chunk(
            id=f"document-{number}",
            text=f"Rule {number} grants {number % 365} days. "
            + " ".join(draw.choices(WORDS, k=140)),
            score=1.0,
        )
        for number in range(size)
    ]


def cases_of(count: int, corpus: list[Chunk]) -> Iterator[Case]:
    """A third with gold that is retrieved, some without, some unanswerable."""
    for number in range(count):
        gold = corpus[(number * 7 + (number % 2) * 131) % len(corpus)]
        if number % 4 == 0:
            gold = corpus[(number * 7 + 65) % len(corpus)]
        yield Case(
            id=f"case-{number}",
            query=f"How many days does {WORDS[number % len(WORDS)]} grant to case {number}",
            reference=gold.text.split(". ")[0].split("grants ")[1],
            reference_context_ids=(gold.id,),
            evidence=(Evidence(text=gold.text.split(". ")[0], document_id=gold.id),),
            tags=(WORDS[number % len(WORDS)], "date" if number % 3 else "number"),
            answerable=number % 20 != 0,
        )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--corpus", type=int, default=8_000)
    asked = parser.parse_args()
    corpus = corpus_of(asked.corpus)
    with TemporaryDirectory() as folder:
        run, page = Path(folder) / "run", Path(folder) / "report.html"
        evaluate(cases_of(asked.cases, corpus), Synthetic(corpus, asked.chunks), out=run)
        report = report_of(run)
        began = time.process_time()
        write_html(page, run_page(report))
        figures: dict[str, Any] = {
            "cases": asked.cases,
            "megabytes": round(page.stat().st_size / 1e6, 1),
            "written_cpu_seconds": round(time.process_time() - began, 2),
        }
        if CHROMIUM and DRIVER:
            figures |= in_a_browser(page)
    print(json.dumps(figures, indent=1))


def in_a_browser(page: Path) -> dict[str, Any]:
    """Seconds to the first paint, and milliseconds of filters as the script runs them."""
    paint = "return performance.getEntriesByType('paint').map(p => [p.name, p.startTime])"
    with browser() as driver:
        driver.get(page.as_uri())
        found = dict(driver.execute_script(paint))
        loaded = driver.execute_script(_LOADED)
        times = {
            name: round(driver.execute_script(f"{set_up}; {_TIMED}"), 1)
            for name, set_up in {
                "the_first": "",
                "by_cause": "document.getElementById('by-cause').value = 'declined'",
                "by_words": "q.value = 'badge 77'",
                "none": "q.value = ''; document.getElementById('by-cause').value = ''",
                "sorted": "sort.value = 'recall@5'",
                "sorted_again": "sort.value = 'token_f1'",
            }.items()
        }
    first = float(found.get("first-contentful-paint") or found.get("first-paint") or 0.0)
    return {
        "first_paint_seconds": round(first / 1e3, 2),
        "loaded_seconds": round(loaded / 1e3, 2),
        "filter_ms": times,
    }


_LOADED = "const t = performance.timing; return t.loadEventEnd - t.navigationStart"
_TIMED = (
    "const t = performance.now(); window.ragbenchFilter(); "
    "document.body.offsetHeight; return performance.now() - t"
)


if __name__ == "__main__":
    main()
