"""docs/compare.md, validate.md, logs.md, validators.md: what they show is what happens."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragbench import open_dump
from ragbench.core.validation import WarningKind
from ragbench.io.dumps.forms import form_names
from tests.cli.runs import ROOT, Ragbench, fenced, lines, printed_by

READ = (ROOT / "docs" / "logs.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "validate.md").read_text("utf-8") + READ
COMPARE = (ROOT / "docs" / "compare.md").read_text("utf-8")
VALIDATORS = (ROOT / "docs" / "validators.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", VALIDATORS, re.M | re.S)
FORMS = dict(re.findall(r"^\| `(\w+)` \| (?:[^|`]*: )?`(.*?)`", READ, re.MULTILINE))
PROBABILITY = re.compile(r"(?:\(|, )[01]\.\d\d|\d+ % \(\d+ to \d+ by domain\)|(?<=s )0\.\d\d")
TEXT = "There are 27 days of paid leave a year."


@pytest.fixture
def files(workplace: Path) -> None:
    dump, label, log = fenced(PAGE, "json")
    record = json.loads(log)
    rows = f"query_id,query,id,content,distance\nq1,{record['query']},leave,{TEXT},0.1\n"
    text = "The mill at Tarn was built in 1910. Three families lived there."
    mill = {"query": "When was the mill built?", "reference": "1910", "reference_contexts": [text]}
    known = json.loads(label)  # in half of the labels the validator is too sure
    Path("beir").mkdir()
    lines("beir/corpus.jsonl", [{"_id": "leave", "title": "", "text": TEXT}])
    lines("my-cases.jsonl", [mill])
    lines("labels.jsonl", [{**known, "answer_present": False}, known] * 12)
    for name, content in {
        "dump.jsonl": dump,
        "log.jsonl": log,
        "response.json": json.dumps(record["response"]),
        "rows.csv": rows,
        "bm25.run": "q1 Q0 leave 1 12.3 bm25\n",
        "topics.txt": f"q1\t{record['query']}\n",
    }.items():
        Path(name).write_text(content, encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_what_the_page_prints_is_what_is_printed(ragbench: Ragbench) -> None:
    (shown,) = fenced(PAGE, "console")
    line, _, output = shown.partition("\n")
    done = ragbench(*shlex.split(line.removeprefix("$ ragbench ")))
    # Probabilities change whenever a validator learns more: what is said must not.
    assert PROBABILITY.sub("(p", done.out.strip()) == PROBABILITY.sub("(p", output.strip())


@pytest.mark.usefixtures("files")
def test_the_commands_run(ragbench: Ragbench) -> None:
    for block in fenced(PAGE, "sh"):
        for arguments in commands(block):
            ragbench(*arguments).ok()


@pytest.mark.usefixtures("files")
def test_the_examples_in_python_run() -> None:
    first, second, *_ = fenced(PAGE, "python")
    assert printed_by(first).startswith(f"q1 True ['{TEXT}']")
    assert printed_by(second, second) == "0.5 0\n0.5 2\n"


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_the_examples_of_validators_print_what_they_show(code: str, shown: str) -> None:
    assert printed_by(code) == shown


def test_every_form_and_kind_is_on_the_page() -> None:
    assert len(EXAMPLES) == 3
    assert list(FORMS) == list(form_names())
    for kind in WarningKind:
        assert f"`{kind.value}`" in PAGE


@pytest.mark.parametrize("name", [name for name in FORMS if name not in {"trec", "beir"}])
def test_each_form_is_recognised_by_its_example(name: str, tmp_path: Path) -> None:
    example = FORMS[name].replace('"..."', json.dumps(TEXT))
    path = tmp_path / "dump.jsonl"
    if name == "pgvector":
        path = tmp_path / "dump.csv"
        example += f"\nq,a question,a,{TEXT},0.1"
    path.write_text(example, encoding="utf-8")
    holds_query = any(word in example for word in ("quer", "question", "user"))
    with open_dump(path, query=None if holds_query else "a b") as dump:
        (retrieval,) = list(dump)
    assert dump.mapping.format == name
    assert [chunk.text for chunk in retrieval.chunks] == [TEXT]


def commands(block: str) -> Iterator[list[str]]:
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "ragbench"
        yield [str(ROOT / text) if text.startswith("datasets/") else text for text in arguments]


def test_the_commands_print_what_the_page_says(ragbench: Ragbench) -> None:
    first, *others = fenced(COMPARE, "sh")
    [ragbench(*arguments) for arguments in commands(first)][-1].ok(*fenced(COMPARE, "text"))
    program, promised = fenced(COMPARE, "python")[0].strip().rsplit("\n", 1)
    assert f"# {printed_by(program).strip()}" == promised
    for number in (1, 2, 3):
        assert (
            ragbench("eval", "office", "--rag", "baseline", "--out", f"run-{number}", "-q").code
            == 0
        )
    for block in others:
        for arguments in commands(block):
            assert ragbench(*arguments).code == 0
