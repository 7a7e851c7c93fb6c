"""Spans a second, and memory, of reading traces.

    python benchmarks/read_traces.py [SPANS ...]
    python benchmarks/read_traces.py --file traces.jsonl

Writes OTLP spans, nine a trace and a trace a line, or takes a file, and reads it as cases. The time
is one of the processor, the memory the peak of the process so far.
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


def measured(path: Path) -> None:
    begin = time.process_time()
    with open_source(path) as source:
        cases = sum(1 for _ in source)
        read = next(note for note in source.info.notes if " spans (" in note)
    taken = time.process_time() - begin
    spans = int(read.split(" spans (")[0].rpartition(" ")[2].replace(",", ""))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    mega = path.stat().st_size / 1e6
    print(
        f"{spans:,} spans ({mega:,.0f} MB), {cases:,} cases: {taken:.1f} s of processor, "
        f"{spans / taken:,.0f} spans/s, peak {memory:.0f} MB"
    )


def main(sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / "spans.jsonl"
            with path.open("w", encoding="utf-8") as file:
                for number in range(size // 9):
                    scopes = [{"scope": {}, "spans": _trace(number)}]
                    line = {"resourceSpans": [{"resource": {}, "scopeSpans": scopes}]}
                    file.write(json.dumps(line) + "\n")
            measured(path)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--file"]:
        measured(Path(sys.argv[2]))
    else:
        main([int(size) for size in sys.argv[1:]] or [50_000, 200_000, 1_000_000])
