"""docs/post_retrieval.md and rerankers.md: files load, code runs, tables name what there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragbench import build_reranker, load_pipeline
from ragbench.post.build import OPERATORS, RERANKERS, load_post_retrieval, load_variants
from ragbench_cli.main import main

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "post_retrieval.md").read_text("utf-8")
RERANKING = (ROOT / "docs" / "rerankers.md").read_text("utf-8")
BLOCK = re.compile(
    r"(?:^`(?P<file>[\w.]+)`:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


def blocks(language: str, page: str = PAGE) -> list[tuple[str | None, str]]:
    return [
        (found["file"], found["text"])
        for found in BLOCK.finditer(page)
        if found["language"] == language
    ]


def test_every_code_block_runs_in_turn() -> None:
    known: dict[str, Any] = {}
    codes = [text for _, text in blocks("python")]
    assert len(codes) == 4
    for code in codes:
        exec(compile(code, "docs/post_retrieval.md", "exec"), known)


def test_every_file_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("my_model.py").write_text(blocks("python")[0][1], "utf-8")
    texts = blocks("yaml")
    assert len(texts) == 4
    for name, text in texts:
        Path("file.yaml").write_text(text, "utf-8")
        if name == "variants.yaml":
            assert len(load_variants(Path("file.yaml"))) == 3
        elif name == "rag.yaml":
            assert load_pipeline(Path("file.yaml")).name == "file"
        else:
            assert load_post_retrieval(Path("file.yaml")).operators


def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in blocks("yaml"):
        if name is not None:
            Path(name).write_text(text, "utf-8")
    lines = [line for _, text in blocks("console") for line in text.splitlines()]
    assert len(lines) == 3
    for line in lines:
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "ragbench"
        dataset = str(ROOT / "datasets" / "pellorin")
        given = [dataset if each == "datasets/pellorin" else each for each in arguments]
        limit = ["--limit", "8"] if arguments[0] == "eval" else []
        assert main([*given, *limit]) == 0


def test_the_table_names_every_operator() -> None:
    named: list[str] = []
    action = ""
    for line in PAGE.splitlines():
        cells = [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        if len(cells) != 4 or cells[0] in ("action", "---"):
            continue
        action = cells[0] or action
        named.append(action if action in ("none", "rerank") else f"{action}.{cells[1]}")
    assert sorted(named) == sorted(OPERATORS.builtin)


def test_the_example_says_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    ((_, code),) = blocks("python", RERANKING)
    exec(compile(code, "docs/rerankers.md", "exec"), {})
    assert capsys.readouterr().out.split() == code.rpartition("# ")[2].split()


def test_every_reranker_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| \D", RERANKING, re.M)) == set(RERANKERS.builtin)


def test_every_reranker_of_the_page_builds() -> None:
    for _, text in blocks("yaml", RERANKING):
        settings = yaml.safe_load(text)
        # Models and corpora of the page are the reader's own.
        text = re.sub(r"\n *(model|corpus): .*", "", text)
        text = re.sub(r"name: cross_encoder", "name: lexical", text)
        text = re.sub(r"\n *(passages|words|first): .*", "", text)
        assert build_reranker(yaml.safe_load(text)).name == settings["name"]
