"""Pull requests in a real repository: the shell steps of the workflow run as a forge runs them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ragbench_cli.commands.init import write_scaffold
from tests.cli.runs import lines, on_a_forge, program

pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None or shutil.which("git") is None, reason="there is no bash or git"
)
RAG = """
import json
from pathlib import Path

from ragbench import RAGInterface, RetrievalResult

LINES = Path(__file__).with_name("data").joinpath("corpus.jsonl").read_text("utf-8").splitlines()


class MyRAG(RAGInterface):
    def retrieve_with_metadata(self, query, top_k=None):
        found = [d for d in map(json.loads, LINES) if d["title"] in query]
        # retrieval
        return RetrievalResult(contexts=[d["text"] for d in found],
                               context_ids=[d["id"] for d in found])

    def generate(self, query, contexts):
        # generation
        facts = contexts[0].split() if contexts else ["?"] * 3
        return facts[2] if "city" in query else facts[-1]
"""
GATE = """
gate:
  baseline: ragbench-baseline.json
  metrics:
    recall@5: {max_drop: 0.02, slices: [tag]}
    token_f1: {max_drop: 0.05, slices: [tag]}
"""
Rows = list[dict[str, Any]]
Change = Callable[[Path], None]


def names(count: int = 60) -> list[str]:
    return [f"Firm{at:02}x" for at in range(count)]


def cases() -> Rows:
    """Two questions about each of sixty firms."""
    kinds = (("city", "In which city is"), ("year", "In which year began"))
    return [
        {
            "id": f"{kind}-{at}",
            "query": f"{words} {name}?",
            "tags": [kind],
            "reference": f"town{at:02}" if kind == "city" else f"{1900 + at}",
            "reference_context_ids": [f"doc{at:02}"],
        }
        for at, name in enumerate(names())
        for kind, words in kinds
    ]


def edited(name: str, edit: Callable[[str], str | None]) -> Change:
    def changed(folder: Path) -> None:
        text = edit((folder / name).read_text("utf-8") if (folder / name).exists() else "")
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text, "utf-8")

    return changed


def file(name: str, content: str | None) -> Change:
    return edited(name, lambda _: content)


def data(name: str, change: Callable[[Rows], Rows]) -> Change:
    def rows(text: str) -> str:
        found = change([json.loads(line) for line in text.splitlines()])
        return "".join(f"{json.dumps(row)}\n" for row in found)

    return edited(f"data/{name}.jsonl", rows)


def dataset(change: Callable[[Rows], Rows]) -> Change:
    return data("cases", change)


def code(mark: str, line: str, behind: str = "") -> Change:
    return edited("my_rag.py", lambda text: text.replace(f"# {mark}", line) + behind)


@dataclass
class Forge:
    """A repository with a workflow; pull requests and pushes run its jobs."""

    home: Path
    evaluations: int = 0
    clones: int = 0
    outcomes: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def workflow(self) -> Any:
        return yaml.safe_load((self.clone() / ".github/workflows/ragbench.yml").read_text("utf-8"))

    @property
    def comment(self) -> str:
        return (self.home / "comment.md").read_text("utf-8")

    @property
    def log(self) -> str:
        return (self.home / "gh.log").read_text("utf-8")

    def git(self, place: Path, *arguments: str) -> str:
        named = ("-c", "user.name=me", "-c", "user.email=me@here")
        command = ["git", "-C", str(place), *named, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def clone(self, change: Change = lambda _: None) -> Path:
        self.clones += 1
        place = self.home / f"clone-{self.clones}"
        self.git(self.home, "clone", "--quiet", "origin.git", str(place))
        change(place)
        self.git(place, "add", "--all")
        self.git(place, "commit", "--quiet", "--allow-empty", "--message", "a change")
        return place

    def pull(self, change: Change) -> bool:
        """Whether the check is green; the comment is the forge's."""
        place = self.clone(change)
        job = yaml.safe_load((place / ".github/workflows/ragbench.yml").read_text("utf-8"))
        return self.run(job["jobs"]["evaluate"], place, "pull_request")

    def push(self, place: Path) -> bool:
        """Pushes to main; whether the workflow started."""
        before = self.git(place, "rev-parse", "origin/main").strip()
        self.git(place, "push", "--quiet", "origin", "HEAD:main")
        changed = self.git(place, "diff", "--name-only", before, "HEAD").split()
        if {*changed} <= {*self.workflow[True]["push"]["paths-ignore"]}:
            return False
        self.measure_main()
        return True

    def measure_main(self) -> None:
        assert self.run(self.workflow["jobs"]["baseline"], self.clone(), "push"), self.outcomes

    def take_up_the_offer(self) -> bool:
        place = self.clone()
        self.git(place, "reset", "--quiet", "--hard", "origin/ragbench-baseline")
        return self.push(place)

    def run(self, job: dict[str, Any], place: Path, event: str) -> bool:
        self.outcomes = {}
        failed = False
        for step in job["steps"]:
            name = step.get("name", "")
            self.outcomes[name] = "skipped"
            if "run" not in step or not self.starts(step, failed, event):
                continue
            self.evaluations += name == "Evaluate"
            tools = self.home / "tools"
            done = on_a_forge(step["run"], place, tools, **self.environment(step, place))
            self.outcomes[name] = "failure" if done.returncode else "success"
            failed = failed or done.returncode != 0
        return not failed

    def starts(self, step: dict[str, Any], failed: bool, event: str) -> bool:
        condition = str(step.get("if", "success()")).strip("${} ").replace("&&", "and")
        known = {
            "always": lambda: True,
            "success": lambda: not failed,
            "github": SimpleNamespace(event_name=event),
            "steps": SimpleNamespace(
                evaluate=SimpleNamespace(conclusion=self.outcomes.get("Evaluate", "skipped"))
            ),
        }
        return bool(eval(condition, known))  # the conditions of this project's own file

    def environment(self, step: dict[str, Any], place: Path) -> dict[str, str]:
        facts = {
            "steps.evaluate.outcome": self.outcomes.get("Evaluate", "skipped"),
            "github.event.pull_request.number": "7",
            "github.ref_name": "main",
        }
        own = {
            key: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: facts.get(found[1], "x"), str(value))
            for key, value in step.get("env", {}).items()
        }
        temporary = self.home / f"{place.name}-temporary"
        temporary.mkdir(exist_ok=True)
        summary = str(temporary / "summary")
        here = {"RAGBENCH": "here", "RUNNER_TEMP": str(temporary), "FORGE": str(self.home)}
        return {**here, "GITHUB_STEP_SUMMARY": summary, **own}


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    """A project whose baseline was offered after the first push, and taken up."""
    made = Forge(tmp_path_factory.mktemp("forge"))
    for name, script in {
        "pip": "exit 0",
        "ragbench": f'exec "{sys.executable}" -m ragbench_cli "$@"',
        "gh": 'printf "%s\\n" "$*" >> "$FORGE/gh.log"\n'
        'case "$*" in\n*--paginate*) [ ! -f "$FORGE/comment.md" ] || echo 1 ;;\n'
        '*body=@*) cp comment.md "$FORGE/comment.md" ;;\nesac',
    }.items():
        program(made.home / "tools" / name, script)
    subprocess.run(
        ["git", "init", "-q", "--bare", "-b", "main", "origin.git"], cwd=made.home, check=True
    )

    def project(folder: Path) -> None:
        write_scaffold(folder)
        (folder / "my_rag.py").write_text(RAG, "utf-8")
        (folder / "ragbench.yaml").write_text(GATE, "utf-8")
        lines(folder / "data" / "cases.jsonl", cases())
        texts = (f"{name} in town{at:02} since {1900 + at}" for at, name in enumerate(names()))
        docs = zip(names(), texts, strict=True)
        lines(
            folder / "data" / "corpus.jsonl",
            [
                {"id": f"doc{at:02}", "title": name, "text": text}
                for at, (name, text) in enumerate(docs)
            ],
        )

    made.git(made.clone(project), "push", "--quiet", "origin", "HEAD:main")
    made.measure_main()
    assert not made.take_up_the_offer()
    return made


def some(rows: Rows, share: float) -> Rows:
    return rows[: round(len(rows) * share)]


def reworded(rows: Rows, share: float = 1.0) -> Rows:
    count = len(some(rows, share))
    return [{**row, "query": f"Please: {row['query']}"} for row in rows[:count]] + rows[count:]


def added(rows: Rows) -> Rows:
    more = [{**row, "id": f"new-{row['id']}", "query": f"Say: {row['query']}"} for row in rows[:20]]
    return rows + more


HASH = "\n\ndef hash_of(text):\n    import zlib\n    return zlib.crc32(text.encode()) % 100\n"


def at_random(percent: int, line: str, where: str = "") -> Change:
    """A line of generation that a share of the questions meets."""
    met = f"if '{where}' in query and hash_of(query) < {percent}: {line}"
    return code("generation", met, HASH)


DECLINES = 'return "I don\'t know."'
WARNED = "passed with a warning"
PULLS: dict[str, tuple[Change, bool, Sequence[str]]] = {
    # What nobody has to look at.
    "noop": (lambda _: None, True, ["ragbench gate: passed"]),
    "refactor": (code("generation", "contexts = list(contexts)"), True, ["my_rag.py changed ("]),
    "documentation": (file("README.md", "hello"), True, ["ragbench gate: passed"]),
    "questions added": (dataset(added), True, ["| added | 20 | new-city-0"]),
    "questions reworded": (dataset(lambda rows: reworded(rows, 0.3)), True, ["| edited | 36 |"]),
    "ids renamed": (
        dataset(lambda rows: [{**row, "id": f"q{at}"} for at, row in enumerate(rows)]),
        True,
        ["120 of them under another id", "| under another id | 120 | city-0 -> q0"],
    ),
    "a row inserted where ids count rows": (
        dataset(
            lambda rows: [
                {**row, "id": old["id"]}
                for row, old in zip([added(rows)[-1], *rows[:-1]], rows, strict=True)
            ]
        ),
        True,
        ["119 of them under another id"],
    ),
    "questions removed": (
        dataset(lambda rows: some(rows, 0.57)),
        True,
        ["52 of the baseline's 120 cases are gone or edited"],
    ),
    "a tag removed": (
        dataset(lambda rows: [r for r in rows if r["tags"] == ["city"]]),
        True,
        ["no case has tag:year any more", "tag:year 60 -> 0"],
    ),
    "a third of one slice declined": (at_random(16, DECLINES, "year"), False, ["answered down"]),
    "two in a hundred fail": (at_random(2, "raise OSError('down')"), True, ["error rate"]),
    # What has to be stopped.
    "one slice wrong": (
        code("generation", 'if "year" in query: return "1066"'),
        False,
        ["token_f1", "tag:year"],
    ),
    "all answers wrong": (code("generation", 'return "no"'), False, ["token_f1 down 1.000"]),
    "retrieval lost": (code("retrieval", "found = []"), False, ["recall@5"]),
    "most declined": (at_random(70, DECLINES), False, ["failed"]),
    "half fail": (
        at_random(50, "raise OSError('index shard 3 is down')"),
        False,
        ["**error rate 59 of 120 cases failed"],
    ),
    "four of five removed": (dataset(lambda rows: some(rows, 0.2)), False, ["cases in common"]),
    "the corpus reworded": (
        data("corpus", lambda docs: [{**doc, "text": f"Nothing {doc['id']}"} for doc in docs]),
        False,
        ["data/corpus.jsonl changed ("],
    ),
    # What does not compare, or cannot run: the comment says so each time.
    "all reworded": (
        dataset(reworded),
        False,
        ["inconclusive", "no case of reports/ragbench", "--reask-baseline"],
    ),
    "reindexed under other ids": (
        data("corpus", lambda docs: [{**doc, "id": f"new-{doc['id']}"} for doc in docs]),
        False,
        ["Evaluation: failure", "not compared with the gold", "by nothing (no retrieved id"],
    ),
    "no baseline": (
        file("ragbench-baseline.json", None),
        False,
        ["could not run", "the baseline ragbench-baseline.json does not exist"],
    ),
    "a conflict": (
        file("ragbench-baseline.json", "<<<<<<< HEAD\n{\n=======\n>>>>>>> b\n"),
        False,
        ["could not run", "conflict of a merge"],
    ),
    "a mistake in the code": (
        code("generation", "return ("),
        False,
        ["could not run", "Evaluation: failure"],
    ),
    "no dataset": (file("data/cases.jsonl", None), False, ["could not run", "Evaluation: failure"]),
    "a broken row": (
        file("data/cases.jsonl", '{"id": 1,\n'),
        False,
        ["could not run", "cases.jsonl"],
    ),
    "a metric that nobody measures": (
        file("ragbench.yaml", "gate: {metrics: {mrr@3: {min: 1}}}\n"),
        False,
        ["could not run", "mrr@3"],
    ),
}
FEW = (
    "refactor",
    "a third of one slice declined",
    "ids renamed",
    "one slice wrong",
    "reindexed under other ids",
    "a conflict",
    "no dataset",
)


def check(forge: Forge, name: str) -> None:
    change, passes, said = PULLS[name]
    (forge.home / "comment.md").write_text("an earlier one: all passed", "utf-8")
    assert forge.pull(change) is passes, (name, forge.comment)
    comment = forge.comment
    assert comment.startswith("<!-- ragbench-gate x-x -->\n")
    flat = " ".join(comment.replace("\\", "").split())
    assert not [part for part in said if part not in flat], comment
    assert "an earlier one" not in comment
    assert len(comment) < 65_536
    if passes and WARNED not in comment and "How the dataset changed" not in comment:
        assert len(comment.splitlines()) <= 24


@pytest.mark.parametrize("name", FEW)
def test_a_pull_request_is_judged_and_its_comment_says_how(forge: Forge, name: str) -> None:
    check(forge, name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in PULLS if name not in FEW])
def test_every_other_pull_request(forge: Forge, name: str) -> None:
    check(forge, name)


def test_main_offers_its_runs_and_merging_them_starts_nothing(forge: Forge) -> None:
    before = forge.evaluations
    # The second merge comes before the first offer is taken up: both runs are offered.
    assert forge.push(forge.clone(code("generation", "contexts = list(contexts)  # again")))
    assert forge.push(forge.clone(code("again", "# once more")))
    assert not forge.take_up_the_offer()
    assert forge.evaluations == before + 2
    kept = json.loads((forge.clone() / "ragbench-baseline.json").read_text("utf-8"))
    assert len(kept["runs"]) == 3
    assert "pr create --base main --head ragbench-baseline --fill" in forge.log
    assert "statuses/" in forge.log
    assert "state=success --field context=evaluate" in forge.log
