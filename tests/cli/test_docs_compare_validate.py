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

LOGS = (ROOT / "docs" / "logs.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "validate.md").read_text("utf-8") + LOGS
COMPARE = (ROOT / "docs" / "compare.md").read_text("utf-8")
VALIDATORS = (ROOT / "docs" / "validators.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", VALIDATORS, re.M | re.S)
"""Programs, each with the text that it prints."""
FORMS = dict(re.findall(r"^\| `(\w+)` \| (?:[^|`]*: )?`(.*?)`", LOGS, re.MULTILINE))
"""An example of each form of a dump, by its name."""
PROBABILITY = re.compile(r"(?:\(|, )[01]\.\d\d|\d+ % \(\d+ to \d+ by domain\)|(?<=s )0\.\d\d")
TEXT = "There are 27 days of paid leave a year."


@pytest.fixture
def files(workplace: Path) -> None:
    """The files that commands and programs of the page name."""
    dump, label_line, log = fenced(PAGE, "json")
    record = json.loads(log)
    query = record["query"]
    case = {
        "query": "When was the mill built?",
        "reference": "1910",
        "reference_contexts": ["The mill at Tarn was built in 1910. Three families lived there."],
    }
    label = json.loads(label_line)
    too_sure = {**label, "answer_present": False}  # here the validator is wrong

    Path("beir").mkdir()
    lines("beir/corpus.jsonl", [{"_id": "leave", "title": "", "text": TEXT}])
    lines("my-cases.jsonl", [case])
    lines("labels.jsonl", [too_sure, label] * 12)
    contents = {
        "dump.jsonl": dump,
        "log.jsonl": log,
        "response.json": json.dumps(record["response"]),
        "rows.csv": f"query_id,query,id,content,distance\nq1,{query},leave,{TEXT},0.1\n",
        "bm25.run": "q1 Q0 leave 1 12.3 bm25\n",
        "topics.txt": f"q1\t{query}\n",
    }
    for name, content in contents.items():
        Path(name).write_text(content, encoding="utf-8")


def commands(block: str) -> Iterator[list[str]]:
    """The arguments of each command of a block."""
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "ragbench"
        yield [in_checkout(argument) for argument in arguments]


def in_checkout(argument: str) -> str:
    """The whole path of a dataset of this project; any other argument as it is."""
    return str(ROOT / argument) if argument.startswith("datasets/") else argument


def without_probabilities(output: str) -> str:
    """They change whenever a validator learns more; the rest must not."""
    return PROBABILITY.sub("(p", output.strip())


@pytest.mark.usefixtures("files")
def test_what_the_page_prints_is_what_is_printed(ragbench: Ragbench) -> None:
    (shown,) = fenced(PAGE, "console")
    command, _, output = shown.partition("\n")

    done = ragbench(*shlex.split(command.removeprefix("$ ragbench ")))

    assert without_probabilities(done.out) == without_probabilities(output)


@pytest.mark.usefixtures("files")
def test_the_commands_run(ragbench: Ragbench) -> None:
    for block in fenced(PAGE, "sh"):
        for arguments in commands(block):
            ragbench(*arguments).ok()


@pytest.mark.usefixtures("files")
def test_the_examples_in_python_run() -> None:
    validation, monitoring, *_ = fenced(PAGE, "python")

    assert printed_by(validation).startswith(f"q1 True ['{TEXT}']")
    assert printed_by(monitoring, monitoring) == "0.5 0\n0.5 2\n"


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
    query = None if holds_query else "a b"

    with open_dump(path, query=query) as dump:
        (retrieval,) = list(dump)

    assert dump.mapping.format == name
    assert [chunk.text for chunk in retrieval.chunks] == [TEXT]


def test_the_commands_print_what_the_page_says(ragbench: Ragbench) -> None:
    comparison, *other_blocks = fenced(COMPARE, "sh")
    example, *_ = fenced(COMPARE, "python")
    program, comment = example.strip().rsplit("\n", 1)

    results = [ragbench(*arguments) for arguments in commands(comparison)]
    results[-1].ok(*fenced(COMPARE, "text"))
    assert f"# {printed_by(program).strip()}" == comment

    # The other blocks name three runs.
    for run in ("run-1", "run-2", "run-3"):
        assert ragbench("eval", "office", "--rag", "baseline", "--out", run, "-q").code == 0
    for block in other_blocks:
        for arguments in commands(block):
            assert ragbench(*arguments).code == 0
