"""Whatever ragbench writes, ragbench reads: every pair of a writer and a reader.

Each gives the cases and outcomes back, or says in one line why it cannot.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from ragbench.io.export import EXPORTS
from ragbench_cli.main import main
from tests.cli.conftest import CASES as OFFICE
from tests.cli.conftest import DOCUMENTS
from tests.cli.runs import lines, own_rag, read_lines

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

# What a reader makes of a file. All else in PAIRS is a part of the error that refuses it.
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
# By the name of a file or folder that ragbench wrote: what each reader makes of it.
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
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that ragbench writes."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("written")
    with contextlib.chdir(folder):
        write_dataset()
        write_run_and_exports()
        write_results()
    return folder


def write_dataset() -> None:
    first_case = cast("dict[str, Any]", OFFICE[0])
    with_all_fields = {
        **first_case,
        "tags": ["hr"],
        "language": "en",
        "cluster": "k",
        "metadata": {"n": 3},
        "alternative_references": ["27"],
    }
    Path("office").mkdir()
    for folder in ("office/", ""):
        lines(f"{folder}cases.jsonl", [with_all_fields, *OFFICE[1:]])
        lines(f"{folder}corpus.jsonl", DOCUMENTS)


def write_run_and_exports() -> None:
    rag = own_rag(GENERATE, RETRIEVE)
    ragbench("eval", "office", "--rag", rag, "-o", "run", "--validate", "lexical", "-q")
    ragbench("export", "run", "--to", "jsonl", "-o", "export.jsonl")
    ragbench("export", "run", "--to", "csv", "-o", "export.csv")
    ragbench("export", "run", "--to", "parquet", "-o", "export.parquet")
    ragbench("export", "run", "--to", "hf", "-o", "export.hf")
    ragbench("export", "run", "--to", "ragas", "-o", "samples.jsonl")
    ragbench("export", "run", "--to", "trec", "-o", "export.run")
    # A second run, to compare with.
    shutil.copytree("run", "again")


def write_results() -> None:
    ragbench("validate", "run", "-o", "verdicts.jsonl", "--validator", "lexical", "-q")
    ragbench("baseline", "set", "run", "-o", "baseline.json")
    # Files of a run outside its folder.
    for name in ("report.json", "cases.csv", "timings.json", "manifest.json"):
        shutil.copy(Path("run", name), name)
    chunk = {"id": "leave", "text": "27 days.", "score": 0.5, "metadata": {}}
    dump = {"query_id": "c1", "query": "How many days of paid leave are there?", "chunks": [chunk]}
    lines("dump.jsonl", [dump])
    lines("gate.json", [{"schema_version": 1, "outcome": "passed"}])
    lines("compare.json", [{"schema_version": 1, "runs": [], "cases": 3}])


def ragbench(*arguments: str) -> None:
    assert main(arguments) in (0, 1), arguments


def exported_cases(path: str | Path) -> dict[str, Any]:
    """The lines of an export, by query, without what differs from run to run."""
    record_of_query: dict[str, Any] = {}
    for record in read_lines(path):
        del record["scores"]
        for stage in ("retrieval", "post_retrieval", "generation"):
            outcome: dict[str, Any] = record[stage] or {}
            outcome |= {"known": None, "seconds": None}
            if outcome.get("failure"):
                outcome["failure"]["traceback"] = None
            record[stage] = outcome
        record_of_query[record["query"]] = record
    return record_of_query


def facts_that_survive(form: str, record: dict[str, Any]) -> Any:
    """What a file of this form holds of a case."""
    generation = record["generation"]
    answer = (generation["value"] or {}).get("response")
    if form == ANSWERED:
        retrieval = record["retrieval"]["value"]
        return answer, retrieval["contexts"], retrieval["context_ids"]
    if form == ANSWERS:
        return answer, record["id"], record["reference"], generation["status"]
    return record


def command_of(reader: str, name: str, out: Path) -> list[str]:
    """The command that reads a file, and writes into this folder."""
    expected = PAIRS[name][READERS.index(reader)]
    if reader == "eval":
        # Questions alone are no results: somebody has to be asked.
        rag = ["--rag", "baseline"] if expected == CASES else []
        return ["eval", name, "-o", str(out / "run"), "-m", "token_f1", *rag]
    if reader == "validate":
        return ["validate", name, "--validator", "lexical", "--json", "--max-malformed", "0.4"]
    if reader == "export":
        return ["export", name, "--to", "jsonl", "-o", str(out / "export.jsonl")]
    if reader == "compare":
        return ["compare", name, "again"]
    return [reader, name]


def pairs(*, refused: bool) -> list[tuple[str, str]]:
    """Each file with each reader that refuses it, or that reads it."""
    names: list[tuple[str, str]] = []
    for name, expected_of_readers in PAIRS.items():
        for reader, expected in zip(READERS, expected_of_readers, strict=True):
            # A part of an error has several words.
            if (" " in expected) is refused:
                names.append((name, reader))
    return names


@pytest.mark.parametrize(("name", "reader"), pairs(refused=True))
def test_a_reader_says_why_it_cannot_read_a_file(
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    reader: str,
) -> None:
    monkeypatch.chdir(written)

    code = main(command_of(reader, name, tmp_path))

    error = capsys.readouterr().err
    assert code == 2
    assert PAIRS[name][READERS.index(reader)] in error
    assert "Traceback" not in error


@pytest.mark.parametrize(("name", "reader"), pairs(refused=False))
def test_a_reader_gives_back_what_was_written(
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    reader: str,
) -> None:
    monkeypatch.chdir(written)

    code = main(command_of(reader, name, tmp_path))

    printed = capsys.readouterr()
    assert code == 0, printed.err
    if reader == "validate":
        assert_verdicts(name, printed.out)
    elif reader == "export":
        assert exported_cases(tmp_path / "export.jsonl") == exported_cases("export.jsonl")
    elif reader == "eval":
        assert_evaluated(PAIRS[name][0], tmp_path, printed.out)


def assert_verdicts(name: str, printed: str) -> None:
    """One for each query with chunks; retrieval failed for the third."""
    verdicts = [json.loads(line) for line in printed.splitlines()]
    assert len(verdicts) == (1 if name == "dump.jsonl" else 2)
    for verdict in verdicts:
        assert "leave" in verdict["relevance"]


def assert_evaluated(form: str, out: Path, printed: str) -> None:
    """The run of a file of this form has the cases of the run that wrote it."""
    if form == CASES:
        assert "baseline on " in printed
    elif form == RETRIEVED:
        assert "recorded on dump: 1 case" in printed
    elif form == RANKED:
        assert ": 2 cases" in printed
    else:
        file = str(out / "export.jsonl")
        ragbench("export", str(out / "run"), "--to", "jsonl", "-o", file)
        read = exported_cases(file)
        expected = exported_cases("export.jsonl")
        if form == ANSWERED:
            # The case whose retrieval failed.
            del expected["Who won the cup?"]
        assert read.keys() == expected.keys()
        for query, record in expected.items():
            assert facts_that_survive(form, read[query]) == facts_that_survive(form, record)


def test_every_file_of_a_run_is_among_the_written_ones(written: Path) -> None:
    files = {path.name for path in (written / "run").iterdir()}
    # For people, and for the run itself.
    files -= {"report.md", ".lock", "journal.sqlite"}

    assert files <= {Path(name).name for name in PAIRS}


def test_every_form_of_an_export_is_known_here() -> None:
    """All but `labels`, the feedback of people in production, are written above."""
    assert sorted(EXPORTS.builtin) == ["csv", "hf", "jsonl", "labels", "parquet", "ragas", "trec"]
