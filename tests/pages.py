"""A run whose every field is hostile, and a browser that opens its page."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragbench import (
    Case,
    EvalSettings,
    Evidence,
    GenerationResult,
    RAGInterface,
    RetrievalResult,
    evaluate,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-default-browser-check",
)

_CALLS = ("document.documentElement.dataset.hit=1", "top.hit=1", "alert(1)", "eval('hit=1')")
_SHAPES = (
    "<script>{}</script>",
    "</script><script>{}</script>",
    "</style><script>{}</script>",
    "</title><script>{}</script>",
    "</pre></details><script>{}</script>",
    "<img src=x onerror={}>",
    '"><img src=x onerror="{}">',
    "' autofocus onfocus='{}' x='",
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<details open ontoggle={}>",
    "<iframe srcdoc='<script>parent.{}</script>'>",
    "<a href='javascript:{}'>x</a>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "<link rel=stylesheet href='data:text/css,*{{color:red}}'><!--{}",
    "<base href='https://example.invalid/'><script>{}</script>",
    "<form action='javascript:{}'><input type=submit autofocus>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror={}>",
    "{{{{ ''.__class__ }}}}{{% for x in [1] %}}{}",
    "<!--><script>{}</script>-->",
    "]]><script>{}</script>",
    "\u2028<script>{}</script>\u2029",
    "\u202e<script>{}</script>\u2066",
    "\x00\x1b[31m<script>{}</script>",
    "data:text/html,<script>{}</script>",
)
PAYLOADS = tuple(shape.format(call) for shape in _SHAPES for call in _CALLS)
"""A hundred texts that would run, were they ever taken for markup."""
LONG = "<b>" + "long line " * 100_000


class Hostile(RAGInterface[Any]):
    """Returns payloads as chunks, ids, scores' metadata, answers and candidates."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return list(self.retrieve_with_metadata(query).contexts)

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        number = PAYLOADS.index(query)
        texts = [
            f"{PAYLOADS[number - 1]} is the gold.",
            PAYLOADS[number - 2],
            LONG if number == 3 else PAYLOADS[number - 9],
        ]
        ids = [f"{PAYLOADS[number - 3]} {place}" for place in range(3)]
        return RetrievalResult(texts, context_ids=ids, scores=[3.0, 2.0, 1.0])

    def generate(self, query: str, contexts: list[str]) -> str:
        return self.generate_with_metadata(query, contexts).response

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        number = PAYLOADS.index(query)
        if number % 9 == 8:
            raise ValueError(PAYLOADS[number - 4])
        response = PAYLOADS[number - 5]
        candidates = [response, PAYLOADS[number - 6]]
        return GenerationResult(response, multi_responses=candidates, confidence=0.5)


class Changed(Hostile):
    """The same with another chunk and other answers."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        number = PAYLOADS.index(query)
        chunk_id = f"{PAYLOADS[number - 3]} x"
        return RetrievalResult([PAYLOADS[number - 2]], context_ids=[chunk_id])

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        number = PAYLOADS.index(query)
        return GenerationResult(PAYLOADS[number - 10], confidence=0.5)


def hostile_cases(payloads: Sequence[str] = PAYLOADS) -> list[Case]:
    """A case for each payload, with payloads in all fields."""
    return [
        Case(
            id=f"{number} {payload}",
            query=payload,
            reference=PAYLOADS[number - 7],
            alternative_references=(PAYLOADS[number - 8],),
            evidence=(Evidence(text=PAYLOADS[number - 1], document_id=payload),),
            tags=(payload, "hostile"),
            cluster=payload,
            language="en",
            metadata={payload: payload},
        )
        for number, payload in enumerate(payloads)
    ]


def hostile_run(folder: Path, rag: RAGInterface[Any] | None = None) -> None:
    """A stored run of them with its report; `Hostile` answers when no RAG is given."""
    from ragbench.views.write import write_reports

    report = evaluate(
        hostile_cases(),
        rag or Hostile(),
        out=folder,
        settings=EvalSettings(name=PAYLOADS[0], rag_name=PAYLOADS[5], notes=(PAYLOADS[6],)),
        metrics=["recall@5", "token_f1", "exact_match"],
    )
    write_reports(report, folder)


@contextmanager
def browser(*flags: str, size: tuple[int, int] = (1280, 900)) -> Generator[Any]:
    """A headless Chromium with a profile of its own, which logs requests and errors."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        width, height = size
        own_flags = (f"--window-size={width},{height}", f"--user-data-dir={profile}")
        for flag in (*FLAGS, *own_flags, *flags):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(executable_path=str(DRIVER)))
        try:
            yield driver
        finally:
            driver.quit()
