"""Whatever ragbench writes, ragbench reads: every pair of a writer and a reader.

Each gives the cases and outcomes back, or says in one line why it cannot.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ragbench_cli.main import main
from tests.cli.conftest import CASES as OFFICE
from tests.cli.conftest import DOCUMENTS
from tests.cli.runs import lines, own_rag

RETRIEVE = """from ragbench import RetrievalResult
if "cup" in query:
    raise ConnectionError("no index")
return RetrievalResult(
    ["Everyone has 27 days of paid leave.", 'a "b"\\n c'], context_ids=["leave", "x y%20"],
    scores=[0.75, 0.5], context_metadata=[{"page": 1}, {}], metadata={"index": 2},
)"""
GENERATE = """from ragbench import GenerationResult
if "desk" in query:
    return GenerationResult("I do not know.", abstained=True)
return GenerationResult("27 days", multi_responses=["27 days", "26"], confidence=0.5)"""

SAME = "same"  # The cases, with every outcome.
ANSWERED = "answered"  # The cases that ended well, with what was retrieved and said.
ANSWERS = "answers"  # What was said; of what was retrieved only ids are there.
CASES = "cases"  # The cases; nothing is recorded.
RETRIEVED = "retrieved"  # The questions with what was retrieved.
RANKED = "ranked"  # The ids of what was retrieved, with the judgements beside them.
SCORES = "scores"  # What is needed to compare.

NO_RUN = "is a file, not the folder of a run. Answers that it records are scored by: ragbench eval"
NO_FOLDER = "is not a run folder"
NO_SCORES = "neither a run nor a baseline file"
NO_CHUNKS = "no chunks are recognised"
IDS = "name their texts with --corpus PATH"
JOIN = "join it with its dataset, as in: ragbench eval DATASET --outputs verdicts.jsonl"
FILE = (NO_RUN, NO_RUN, NO_SCORES)
FOLDER = (NO_FOLDER, NO_FOLDER, NO_FOLDER)
RUN = (SCORES, SAME, SCORES)
READERS = ("eval", "validate", "report", "export", "compare")
PAIRS: dict[str, tuple[str, ...]] = {
    "office": (CASES, "found a folder", *FOLDER),
    "cases.jsonl": (CASES, NO_CHUNKS, *FILE),
    "corpus.jsonl": ("are named with --corpus", NO_CHUNKS, *FILE),
    "run": (SAME, RETRIEVED, *RUN),
    "run/report.json": (SAME, RETRIEVED, *RUN),
    "run/cases.csv": (SAME, RETRIEVED, *RUN),
    "run/report.html": ("the format is not recognised", "not recognised", *RUN),
    "export.jsonl": (SAME, RETRIEVED, *FILE),
    "export.csv": (SAME, RETRIEVED, *FILE),
    "export.parquet": (SAME, RETRIEVED, *FILE),
    "export.hf": (SAME, RETRIEVED, *FOLDER),
    "samples.jsonl": (ANSWERED, RETRIEVED, *FILE),
    "export.run": (RANKED, IDS, *FILE),
    "report.json": ("a run's report, which holds no cases", NO_CHUNKS, *FILE),
    "cases.csv": (ANSWERS, "only the ids of its chunks are recorded", *FILE),
    "verdicts.jsonl": (JOIN, "holds verdicts, not the retrievals that they judge", *FILE),
    "verdicts.summary.json": ("it is a summary of verdicts: it holds no", NO_CHUNKS, *FILE),
    "dump.jsonl": (RETRIEVED, RETRIEVED, *FILE),
    "baseline.json": ("it is a baseline file: it holds", NO_CHUNKS, NO_RUN, NO_RUN, SCORES),
    "gate.json": ("a result that ragbench wrote", NO_CHUNKS, *FILE),
    "compare.json": ("a result that ragbench wrote", NO_CHUNKS, *FILE),
    "timings.json": ("a run's timings", NO_CHUNKS, *FILE),
    "manifest.json": ("a run's manifest", NO_CHUNKS, *FILE),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("written")
    before = Path.cwd()
    os.chdir(folder)
    try:
        _write(folder)
        yield folder
    finally:
        os.chdir(before)


def _write(folder: Path) -> None:
    (folder / "office").mkdir()
    rich: dict[str, Any] = {"tags": ["hr"], "language": "en", "cluster": "k", "metadata": {"n": 3}}
    first = cast("dict[str, Any]", OFFICE[0])
    cases = [{**first, **rich, "alternative_references": ["27"]}, *OFFICE[1:]]
    for name, records in (("cases", cases), ("corpus", DOCUMENTS)):
        for place in ("office/", ""):
            lines(f"{place}{name}.jsonl", records)
    rag = own_rag(GENERATE, RETRIEVE)
    run("eval", "office", "--rag", rag, "-o", "run", "--validate", "lexical", "-q")
    for form, name in (
        ("jsonl", "export.jsonl"),
        ("csv", "export.csv"),
        ("parquet", "export.parquet"),
        ("hf", "export.hf"),
        ("ragas", "samples.jsonl"),
        ("trec", "export.run"),
    ):
        run("export", "run", "--to", form, "-o", name)
    shutil.copytree(folder / "run", folder / "again")
    run("validate", "run", "-o", "verdicts.jsonl", "--validator", "lexical", "-q")
    run("baseline", "set", "run", "-o", "baseline.json")
    for name in ("report.json", "cases.csv", "timings.json", "manifest.json"):
        (folder / name).write_bytes((folder / "run" / name).read_bytes())
    chunk = {"id": "leave", "text": "27 days.", "score": 0.5, "metadata": {}}
    dump = {"query_id": "c1", "query": "How many days of paid leave are there?", "chunks": [chunk]}
    lines("dump.jsonl", [dump])
    lines("gate.json", [{"schema_version": 1, "outcome": "passed"}])
    lines("compare.json", [{"schema_version": 1, "runs": [], "cases": 3}])


def run(*arguments: str) -> None:
    assert main(arguments) in (0, 1), arguments


def cases(path: str) -> dict[str, Any]:
    """The lines of an export, by query, without what differs from run to run."""
    found: dict[str, Any] = {}
    for line in Path(path).read_text("utf-8").splitlines():
        record = json.loads(line)
        del record["scores"]
        for stage in ("retrieval", "post_retrieval", "generation"):
            outcome: dict[str, Any] = record[stage] or {}
            record[stage] = outcome
            outcome |= {"known": None, "seconds": None}
            if outcome.get("failure"):
                outcome["failure"]["traceback"] = None
        found[record["query"]] = record
    return found


def kept(what: str, record: dict[str, Any]) -> Any:
    generation = record["generation"]
    answer = (generation["value"] or {}).get("response")
    if what == ANSWERED:
        value = record["retrieval"]["value"]
        return answer, value["contexts"], value["context_ids"]
    if what == ANSWERS:
        return answer, record["id"], record["reference"], generation["status"]
    return record


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", PAIRS)
def test_pair(
    written: Path, tmp_path: Path, monkeypatch: Any, capsys: Any, name: str, reader: str
) -> None:
    monkeypatch.chdir(written)
    expected = PAIRS[name][READERS.index(reader)]
    out = str(tmp_path / "out")
    # Questions alone are no results: somebody has to be asked.
    asked = ["--rag", "baseline"] if expected == CASES else []
    validation = ("--validator", "lexical", "--json", "--max-malformed", "0.4")
    call = {
        "eval": ["eval", name, "-o", out, "-m", "token_f1", *asked],
        "validate": ["validate", name, *validation],
        "report": ["report", name],
        "export": ["export", name, "--to", "jsonl", "-o", f"{out}.jsonl"],
        "compare": ["compare", name, "again"],
    }[reader]
    code = main(call)
    printed = capsys.readouterr()
    if " " in expected:
        assert code == 2
        assert expected in printed.err
        assert "Traceback" not in printed.err
        return
    assert code == 0, printed.err
    if reader == "validate":
        verdicts = [json.loads(line) for line in printed.out.splitlines()]
        assert len(verdicts) == (1 if name == "dump.jsonl" else 2)
        assert all("leave" in verdict["relevance"] for verdict in verdicts)
    elif reader == "export":
        assert cases(f"{out}.jsonl") == cases("export.jsonl")
    elif reader == "eval" and expected == CASES:
        assert "baseline on " in printed.out
    elif reader == "eval" and expected == RETRIEVED:
        assert "recorded on dump: 1 case" in printed.out
    elif reader == "eval" and expected == RANKED:
        assert ": 2 cases" in printed.out
    elif reader == "eval":
        main(["export", out, "--to", "jsonl", "-o", f"{out}.jsonl"])
        found, wanted = cases(f"{out}.jsonl"), cases("export.jsonl")
        if expected == ANSWERED:
            wanted = {query: one for query, one in wanted.items() if one["id"] != "c3"}
        assert found.keys() == wanted.keys()
        assert all(
            kept(expected, found[query]) == kept(expected, wanted[query]) for query in wanted
        )


def test_every_export_and_every_file_of_a_run_is_among_the_writers(written: Path) -> None:
    from ragbench.io.export import EXPORTS

    assert len(EXPORTS.builtin) == 7
    files = {path.name for path in (written / "run").iterdir()}
    assert files - {"report.md", ".lock", "journal.sqlite"} <= {Path(name).name for name in PAIRS}
