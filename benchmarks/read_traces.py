"""Spans a second, and memory, of reading traces.

    python benchmarks/read_traces.py [SPANS ...]

Writes OTLP spans, nine a trace and a trace a line, and reads them as cases. The time is one of the
processor, the memory the peak of the process so far.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ragbench import open_source

_TEXT = "Everyone has 27 days of paid leave a year, and the public holidays of the country. " * 4


def _span(trace: int, place: int, values: dict[str, str]) -> dict[str, Any]:
    begin = 1_790_000_000_000_000_000 + trace * 1_000_000 + place
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{trace:08x}{place:08x}",
        "parentSpanId": f"{trace:08x}{0:08x}" if place else "",
        "name": f"step {place}",
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + 500),
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in values.items()],
        "status": {},
    }


def _trace(number: int) -> list[dict[str, Any]]:
    question = f"How many days of leave are there in year {number}?"
    documents = {
        f"retrieval.documents.{at}.document.{name}": value
        for at in range(4)
        for name, value in (("id", f"d{number % 97 + at}"), ("content", _TEXT))
    }
    kinds = ["CHAIN", "RETRIEVER", "LLM", *["CHAIN"] * 6]
    more = [{"output.value": "27 days."}, documents, {"output.value": "27 days."}, *[{}] * 6]
    return [
        _span(number, at, {"openinference.span.kind": kind, "input.value": question, **held})
        for at, (kind, held) in enumerate(zip(kinds, more, strict=True))
    ]


def main(sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / "spans.jsonl"
            with path.open("w", encoding="utf-8") as file:
                for number in range(size // 9):
                    scopes = [{"scope": {}, "spans": _trace(number)}]
                    line = {"resourceSpans": [{"resource": {}, "scopeSpans": scopes}]}
                    file.write(json.dumps(line) + "\n")
            begin = time.process_time()
            with open_source(path) as source:
                cases = sum(1 for _ in source)
            taken = time.process_time() - begin
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            mega = path.stat().st_size / 1e6
            print(
                f"{size:,} spans ({mega:,.0f} MB), {cases:,} cases: {taken:.1f} s of processor, "
                f"{size / taken:,.0f} spans/s, peak {memory:.0f} MB"
            )


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [50_000, 200_000, 1_000_000])
