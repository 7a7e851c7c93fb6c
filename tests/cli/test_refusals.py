"""What the user can mend is one clear error with exit code 2: each command line with its words."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, lines
from tests.cli.test_recorded import SAID

FILES = {
    "empty.jsonl": "",
    "oops.jsonl": "{oops\n",
    "numbers.jsonl": "1\n2\n",
    "bare.jsonl": '{"question": "a b"}\n',
    "list.jsonl": '["a b", 7, "text", 0.9]\n',
    "nested.jsonl": '{"question": "a b", "text": "c", "output": {"docs": []}}\n',
    "good.jsonl": '{"query": "a b", "chunks": []}\n',
    "half.jsonl": '{"query": "a b", "chunks": []}\n{oops\n',
    "no_verdicts.jsonl": '{"query_id": "q1", "answer_present": true}\n',
    "documents.jsonl": '{"id": "a", "text": "Rain."}\n',
    "stage.yaml": "operators: [{action: filter, type: llm}]",
    "rag.yaml": "indexing: {corpus: office/corpus.jsonl}\n",
}
USAGE = {
    "evaluate": "ragbench has no command 'evaluate'. Did you mean 'eval'?",
    "eval": "ragbench eval needs DATASET",
    "eval office --limt 3": "has no option --limt. Did you mean --limit N?",
    "eval office --limit many": "--limit must be a whole number, not 'many'",
    "eval office --batch-size 0": "--batch-size must be a whole number from 1 on, not '0'",
    "report": "ragbench report needs RUN",
    "show nothing": "ragbench show has no command 'nothing'",
    "show metric recal": "Did you mean recall or set_recall?",
    "init rags.py": "cannot be written",
    "explain office": "is not a run folder",
    "calibrate good.jsonl -q": "no query is labelled for whether its answer is present",
    "doctor --corpus office": "--corpus",
    "cache stats --cache nowhere.sqlite": "there is no cache at nowhere.sqlite",
    "history": "baseline file is made with: ragbench baseline add RUN -o ragbench-baseline.json",
    "history office": "baseline file is made with: ragbench baseline add office -o FILE",
    "history good.jsonl": "is not a baseline file",
    "gate none": "none cannot be read",
    "gate office": "office is not a run folder",
    "why memory:store": "give a question with --gold ID, or --run RUN",
    "why memory:store rent": "name with --gold ID the chunk or document that it should find",
    "why memory:store rent --run office": "give a question with --gold ID, or --run RUN",
    "why memory:store --run office --gold x": "the cases of --run have their own",
    "why memory:store --run office/cases.jsonl --case no": "has no case 'no'. There are: c1",
    "why memory:store rent --gold x -k 0": "top_k must be at least 1",
}
EVAL = {
    "nope.jsonl": "nope.jsonl: no such file or folder",
    "office -m nDGC@10": "unknown metric 'nDGC'. Did you mean nDCG?",
    "office -m recall": "'recall' needs a cutoff, as in recall@10",
    "office -m ''": "--metrics names no metric",
    "office --rag nope:X": "there is no module 'nope'",
    "office --rag rags.py:Plein": "Did you mean Plain?",
    "office --rag rags": "is not of the form",
    "office --rag baseline --rag-args {": "--rag-args is not JSON",
    "office --rag baseline --rag-args 3": "--rag-args must be a JSON object",
    """office --rag baseline --rag-args '{"top": 3}'""": "the baseline RAG has no setting top. It",
    """office --rag baseline --rag-args '{"top_k": "x"}'""": "a setting has the wrong type",
    "office --rag rags.py:Plain --corpus x": "--corpus is for the baseline",
    "office --rag baseline --limit 0": "--limit must be at least 1, not 0",
    "office --max-error-rate 7": "--max-error-rate must be between 0 and 1, not 7",
    "office --rag baseline --limit 1 --sample 1": "--limit and --sample exclude each other",
    "office --since gestern": "--since gestern: expected a date or a time, such as 2026-09-21",
    "office --since 2026-02-01 --until 2026-01-01": "--since 2026-02-01 is after --until 2026-01",
    "office --where user": "--where user: expected NAME=VALUE",
    "office --where user=ada": "none of 3 records is taken (where user=ada): none has 'user'",
    "office --timeout 0": "--timeout must be more than 0 seconds, not 0",
    "office --timeout nan": "--timeout must be more than 0 seconds, not nan",
    "office --matching ids": "--matching must be one of auto, id, document_id, text",
    "office --format xml": "unknown format 'xml'",
    "office --field query": "expected TARGET=SOURCE",
    "office --field query=a --field query=b": "--field maps query twice: to a and to b",
    "office --rag baseline --out rags.py": "rags.py is a file. Choose a folder with --out",
    "office --rag baseline --out office": "office is not empty and is not a run folder",
    "office --rag baseline --validate nobody": "unknown name 'nobody'",
    "office --calibration c.json": "name one with --validate",
    "office --rag-repeats 2": "--rag-repeats needs --rag",
    "office --pipeline rag.yaml --rag rags.py:Plain": "--rag and --pipeline cannot be combined",
    "office --pipeline rag.yaml --rag-args {}": "--rag-args and --pipeline cannot be combined",
    "office --pipeline rag.yaml --post-retrieval x": "--post-retrieval and --pipeline cannot be",
    "office --pipeline rag.yaml --corpus office": "rag.yaml names its own corpus",
    "office --rag baseline --post-retrieval stage.yaml": "no model is named",
    "office --rag rags.py:Plain --rag-repeats 0": "--rag-repeats",
    "office --rag rags.py:Plain --rag-repeats 21": "give 1 to 20",
    "office --rag rags.py:Plain --rag-repeats 2 --dry-run": "--dry-run",
    "said.jsonl --corpus office": "--corpus is not used: said.jsonl has recorded answers",
    """said.jsonl --rag-args '{"top_k": 1}'""": "--rag-args is not used: answers are recorded",
    "said.jsonl --answers-format ragas": "--outputs-format needs --outputs",
    "said.jsonl --field answers.response=x": "there is no file of outputs",
    "said.jsonl --field respons=x": "no field 'respons' to map to. Did you mean 'response'?",
    "said.jsonl --answers nowhere.jsonl": "nowhere.jsonl: no such file or folder",
    "said.jsonl --encoding klingon": "no text encoding 'klingon'",
    "said.jsonl --field response=nothing": "no record has the field that the mapping response=",
}
VALIDATE = {
    "empty.jsonl": "the file is empty",
    "oops.jsonl": "not valid JSON",
    "half.jsonl --strict": "half.jsonl:2: not valid JSON",
    "numbers.jsonl": "no chunks are recognised; the record is the number 1",
    "bare.jsonl": "no chunks are recognised",
    "list.jsonl --query 'a b'": "no chunks are recognised",
    "nested.jsonl --map chunks=output.passages": "are recognised under 'output.passages'",
    "good.jsonl --format qdrnt": "unknown format 'qdrnt'",
    "good.jsonl --map txt=x": "no such field",
    "good.jsonl --map text": "expected TARGET=SOURCE",
    "good.jsonl --scores up": "--score-kind must be one of",
    "good.jsonl --validator no": "unknown name 'no'",
    "good.jsonl --min-quality Best": "--min-quality Best",
    "good.jsonl --min-answer-present 7": "share from 0 to 1",
    "good.jsonl -o good.jsonl": "is the dump itself",
    "good.jsonl -o good.jsonl/v.jsonl": "cannot be written",
    "good.jsonl --against no_verdicts.jsonl --html p.html": "jsonl:1: expected a verdict",
    "good.jsonl --against nowhere.jsonl --html p.html": "nowhere.jsonl: cannot be read",
    "documents.jsonl --self-test": "no near misses can be made of it",
}
OF_A_RUN = {
    "cases run --cause lost": "--cause must be one of not_in_corpus",
    "cases run --cause 'not retreived'": "Did you mean 'not retrieved'?",
    "cases tagged --tag traval": "no case of the run has the tag 'traval'. Did you mean 'travel'?",
    "cases run --tag x --json": "has the tag 'x'. Its cases have no tags",
    "cases run --worst token_f2": "Did you mean 'token_f1'?",
    "explain run c9": "the run has no case 'c9'",
    "report run --against run": "--baseline shows cases in a page: name it with --html FILE",
    "eval run -o run": "--out run is the run that is read: choose an",
    "gate run": "no checks are configured",
    "gate run -b none": "the baseline none does not exist",
    "gate run -b ./run/report.json": "run is its own baseline, so that nothing can differ",
    "gate link -b run": "link is its own baseline",
    "gate run --min m": "--min: 'm' is not understood",
    "gate run --min token_f1=1 --annotations x": "--annotations must be one of",
    "gate run --min token_f1=1 --json --md -": "both want standard output",
    "gate run --min token_f1=0 --md no/x.md": "no/x.md: cannot be written",
    "gate run --min token_f1=1 --min TOKEN_F1=0": "--min: TOKEN_F1 is given more than once",
    "gate run --max-cost each=1": "expected case=NUMBER or all=NUMBER",
    "gate run --config none.yaml": "none.yaml: cannot be read",
    "label run -m support": "does not measure support. It measures",
    "label nowhere -m answer_correct": "holds no answers to label",
    "label run -m answer_correct --against run": "no pairs of different answers",
    "label run -m answer_correct -o labels.csv": "would be JSON lines",
    "compare run": "compare needs 2 to 16 runs, got 1 run",
    "compare run run": "is compared with itself",
    "compare run link": "is compared with itself",
    "compare run nowhere": "nowhere cannot be read",
    "compare run other -m recal@5": "Did you mean recall@5?",
    "compare run other --pass-metrics ECE": "ECE cannot say whether a case passes",
    "compare run other --json --md -": "both want standard output",
}
COMMANDS = {
    **USAGE,
    **{f"eval {arguments}": error for arguments, error in EVAL.items()},
    **{f"validate {arguments}": error for arguments, error in VALIDATE.items()},
}


def files() -> set[Path]:
    paths = {path for path in Path().rglob("*") if path.is_file()}
    return {path for path in paths if path.suffix != ".pyc"}


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in files()}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_user_can_mend_is_one_clear_error(ragbench: Ragbench, command: str) -> None:
    lines("said.jsonl", SAID)
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    files_before = files()

    done = ragbench(*shlex.split(command)).refused(COMMANDS[command])

    assert done.out == ""
    assert "Traceback" not in done.err
    assert files() == files_before  # nothing is left behind


def test_of_a_run_it_is_said_what_it_has(ragbench: Ragbench) -> None:
    for run in ("run", "other"):
        ragbench("eval", "office", "--rag", "baseline", "-o", run, "-q").ok()
    tagged = {
        "query": "a?",
        "response": "b",
        "reference": "b",
        "tags": ["travel"],
    }
    lines("tags.jsonl", [tagged])
    ragbench("eval", "tags.jsonl", "-o", "tagged", "-q").ok()
    Path("link").symlink_to("run")
    contents_before = contents()

    for command, error in OF_A_RUN.items():
        done = ragbench(*shlex.split(command)).refused("Error: ", error)
        assert done.out == ""

    assert contents() == contents_before
