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


FIRMS = range(60)


def firm(number: int) -> str:
    return f"Firm{number:02}x"


def cases() -> Rows:
    """Two questions about each of sixty firms."""
    rows: Rows = []
    for number in FIRMS:
        name = firm(number)
        document = {"reference_context_ids": [f"doc{number:02}"]}
        city = {
            "id": f"city-{number}",
            "query": f"In which city is {name}?",
            "tags": ["city"],
            "reference": f"town{number:02}",
        }
        year = {
            "id": f"year-{number}",
            "query": f"In which year began {name}?",
            "tags": ["year"],
            "reference": f"{1900 + number}",
        }
        rows += [city | document, year | document]
    return rows


def documents() -> Rows:
    """One about each firm."""
    rows: Rows = []
    for number in FIRMS:
        name = firm(number)
        text = f"{name} in town{number:02} since {1900 + number}"
        rows.append({"id": f"doc{number:02}", "title": name, "text": text})
    return rows


def edited(name: str, edit: Callable[[str], str | None]) -> Change:
    """Changes the text of a file, which is empty where there is none; None removes the file."""

    def changed(folder: Path) -> None:
        path = folder / name
        text = edit(path.read_text("utf-8") if path.exists() else "")
        if text is None:
            path.unlink()
        else:
            path.write_text(text, "utf-8")

    return changed


def file(name: str, content: str | None) -> Change:
    return edited(name, lambda _: content)


def data(name: str, change: Callable[[Rows], Rows]) -> Change:
    """Changes the rows of data/NAME.jsonl."""

    def changed(text: str) -> str:
        rows = change([json.loads(line) for line in text.splitlines()])
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    return edited(f"data/{name}.jsonl", changed)


def dataset(change: Callable[[Rows], Rows]) -> Change:
    return data("cases", change)


def code(mark: str, line: str, behind: str = "") -> Change:
    """Puts a line in place of this comment of my_rag.py, and more code behind the module."""
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
        author = ("-c", "user.name=me", "-c", "user.email=me@here")
        command = ["git", "-C", str(place), *author, *arguments]
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
        changed = set(self.git(place, "diff", "--name-only", before, "HEAD").split())
        # YAML reads the key `on` of a workflow as True.
        ignored = set(self.workflow[True]["push"]["paths-ignore"])
        if changed <= ignored:
            return False
        self.measure_main()
        return True

    def measure_main(self) -> None:
        job = self.workflow["jobs"]["baseline"]
        assert self.run(job, self.clone(), "push"), self.outcomes

    def take_up_the_offer(self) -> bool:
        """Merges the offered baseline into main; whether the workflow started."""
        place = self.clone()
        self.git(place, "reset", "--quiet", "--hard", "origin/ragbench-baseline")
        return self.push(place)

    def run(self, job: dict[str, Any], place: Path, event: str) -> bool:
        """Runs the steps of a job; whether none failed."""
        self.outcomes = {}
        failed = False
        for step in job["steps"]:
            name = step.get("name", "")
            self.outcomes[name] = "skipped"
            if "run" not in step or not self.starts(step, failed, event):
                continue
            if name == "Evaluate":
                self.evaluations += 1
            variables = self.environment(step, place)
            done = on_a_forge(step["run"], place, self.home / "tools", **variables)
            self.outcomes[name] = "failure" if done.returncode else "success"
            failed = failed or done.returncode != 0
        return not failed

    def starts(self, step: dict[str, Any], failed: bool, event: str) -> bool:
        """Whether the condition of a step holds, after a step that failed or after none."""
        condition = str(step.get("if", "success()")).strip("${} ").replace("&&", "and")
        conclusion = self.outcomes.get("Evaluate", "skipped")
        variables = {
            "always": lambda: True,
            "success": lambda: not failed,
            "github": SimpleNamespace(event_name=event),
            "steps": SimpleNamespace(evaluate=SimpleNamespace(conclusion=conclusion)),
        }
        return bool(eval(condition, variables))  # the conditions of this project's own file

    def environment(self, step: dict[str, Any], place: Path) -> dict[str, str]:
        """The variables of a step: those of the forge, and its own with their expressions read."""
        facts = {
            "steps.evaluate.outcome": self.outcomes.get("Evaluate", "skipped"),
            "github.event.pull_request.number": "7",
            "github.ref_name": "main",
        }

        def fact(expression: re.Match[str]) -> str:
            return facts.get(expression[1], "x")

        temporary = self.home / f"{place.name}-temporary"
        temporary.mkdir(exist_ok=True)
        variables = {
            "RAGBENCH": "here",
            "RUNNER_TEMP": str(temporary),
            "FORGE": str(self.home),
            "GITHUB_STEP_SUMMARY": str(temporary / "summary"),
        }
        for name, value in step.get("env", {}).items():
            variables[name] = re.sub(r"\$\{\{ (.*?) \}\}", fact, str(value))
        return variables


GH = """\
printf "%s\\n" "$*" >> "$FORGE/gh.log"
case "$*" in
*--paginate*) [ ! -f "$FORGE/comment.md" ] || echo 1 ;;
*body=@*) cp comment.md "$FORGE/comment.md" ;;
esac"""
"""The forge's program: it notes its arguments, and keeps the comment."""


def project(folder: Path) -> None:
    """Writes the project of the first push."""
    write_scaffold(folder)
    (folder / "my_rag.py").write_text(RAG, "utf-8")
    (folder / "ragbench.yaml").write_text(GATE, "utf-8")
    lines(folder / "data" / "cases.jsonl", cases())
    lines(folder / "data" / "corpus.jsonl", documents())


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    """A project whose baseline was offered after the first push, and taken up."""
    forge = Forge(tmp_path_factory.mktemp("forge"))
    tools = forge.home / "tools"
    program(tools / "pip", "exit 0")
    program(tools / "ragbench", f'exec "{sys.executable}" -m ragbench_cli "$@"')
    program(tools / "gh", GH)
    new_repository = ["git", "init", "-q", "--bare", "-b", "main", "origin.git"]
    subprocess.run(new_repository, cwd=forge.home, check=True)

    forge.git(forge.clone(project), "push", "--quiet", "origin", "HEAD:main")
    forge.measure_main()
    assert not forge.take_up_the_offer()
    return forge


# --- changes of rows


def beginning(rows: Rows, share: float) -> Rows:
    count = round(len(rows) * share)
    return rows[:count]


def reworded(rows: Rows, share: float = 1.0) -> Rows:
    """The same rows, of which a share at the beginning asks in other words."""
    changed = []
    for row in beginning(rows, share):
        changed.append({**row, "query": f"Please: {row['query']}"})
    unchanged = rows[len(changed) :]
    return changed + unchanged


def added(rows: Rows) -> Rows:
    """The same rows, and twenty new ones behind them."""
    new_rows = []
    for row in rows[:20]:
        new_names = {"id": f"new-{row['id']}", "query": f"Say: {row['query']}"}
        new_rows.append(row | new_names)
    return rows + new_rows


def renamed(rows: Rows) -> Rows:
    return [{**row, "id": f"q{number}"} for number, row in enumerate(rows)]


def inserted_at_the_beginning(rows: Rows) -> Rows:
    """A new row and all but the last one, under the ids of the rows that were in these places."""
    new_row = added(rows)[-1]
    moved = [new_row, *rows[:-1]]
    return [{**row, "id": old["id"]} for row, old in zip(moved, rows, strict=True)]


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
        dataset(renamed),
        True,
        ["120 of them under another id", "| under another id | 120 | city-0 -> q0"],
    ),
    "a row inserted where ids count rows": (
        dataset(inserted_at_the_beginning),
        True,
        ["119 of them under another id"],
    ),
    "questions removed": (
        dataset(lambda rows: beginning(rows, 0.57)),
        True,
        ["52 of the baseline's 120 cases are gone or edited"],
    ),
    "a tag removed": (
        dataset(lambda rows: [row for row in rows if row["tags"] == ["city"]]),
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
    "four of five removed": (
        dataset(lambda rows: beginning(rows, 0.2)),
        False,
        ["cases in common"],
    ),
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
    """One of PULLS ends as its row says, with these parts in its comment."""
    change, passes, parts = PULLS[name]
    (forge.home / "comment.md").write_text("an earlier one: all passed", "utf-8")

    is_green = forge.pull(change)

    comment = forge.comment
    assert is_green is passes, (name, comment)
    assert comment.startswith("<!-- ragbench-gate x-x -->\n")
    flat = " ".join(comment.replace("\\", "").split())
    for part in parts:
        assert part in flat, comment
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
    evaluations_before = forge.evaluations
    # The second merge comes before the first offer is taken up: both runs are offered.
    assert forge.push(forge.clone(code("generation", "contexts = list(contexts)  # again")))
    assert forge.push(forge.clone(code("again", "# once more")))

    starts_the_workflow = forge.take_up_the_offer()

    assert not starts_the_workflow
    assert forge.evaluations == evaluations_before + 2
    baseline = json.loads((forge.clone() / "ragbench-baseline.json").read_text("utf-8"))
    assert len(baseline["runs"]) == 3
    assert "pr create --base main --head ragbench-baseline --fill" in forge.log
    assert "statuses/" in forge.log
    assert "state=success --field context=evaluate" in forge.log
