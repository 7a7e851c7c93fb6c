"""docs/rerankers.md: its code runs, its table names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ragbench import build_reranker
from ragbench.post.build import RERANKERS

PAGE = (Path(__file__).parents[3] / "docs" / "rerankers.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_example_says_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "docs/rerankers.md", "exec"), {})
    assert capsys.readouterr().out.split() == code.rpartition("# ")[2].split()


def test_every_reranker_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| \D", PAGE, re.M)) == set(RERANKERS.builtin)


def test_every_file_builds() -> None:
    for text in blocks("yaml"):
        settings = yaml.safe_load(text)
        # Models and corpora of the page are the reader's own.
        text = re.sub(r"\n *(model|corpus): .*", "", text)
        text = re.sub(r"name: cross_encoder", "name: lexical", text)
        text = re.sub(r"\n *(passages|words|first): .*", "", text)
        assert build_reranker(yaml.safe_load(text)).name == settings["name"]
