"""Workflows: they parse, name only what exists, and their scripts do what docs/ci.md says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from ragbench_cli.commands.init import write_scaffold
from ragbench_cli.main import app
from tests.cli.runs import ROOT, on_a_forge, program

Shell = Callable[..., subprocess.CompletedProcess[str]]

TEMPLATES = ROOT / "cli" / "ragbench_cli" / "templates"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
GITHUB = yaml.safe_load((TEMPLATES / "github.yml").read_text("utf-8"))
GITLAB = yaml.safe_load((TEMPLATES / "gitlab.yml").read_text("utf-8"))
PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")
ARTIFACT = "https://forge/me/mine/actions/runs/1/artifacts/2"
WHAT_IS_KEPT = "`report.html` shows every case, `gate.html` what changed."
STEPS: list[dict[str, Any]] = GITHUB["jobs"]["evaluate"]["steps"]
BASELINE_STEPS: list[dict[str, Any]] = GITHUB["jobs"]["baseline"]["steps"]
GITLAB_JOBS = ("ragbench", "ragbench-baseline")
COMMANDS: Any = typer.main.get_command(app)

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def scripts() -> dict[str, str]:
    """Every shell script of the files; test_docs.py knows those of the pages."""
    found = {f"action: {s['name']}": s["run"] for s in ACTION["runs"]["steps"] if "run" in s}
    found |= {f"workflow: {s['name']}": s["run"] for s in STEPS if "run" in s}
    found |= {f"baseline: {s['name']}": s["run"] for s in BASELINE_STEPS if "run" in s}
    found |= {f"gitlab: {job}": "\n".join(GITLAB[job]["script"]) for job in GITLAB_JOBS}
    return found


def calls(script: str) -> Iterator[list[str]]:
    """The calls of ragbench in a script, as words; what the shell fills in stays as it is."""
    for line in script.replace("\\\n", " ").splitlines():
        if line.strip().startswith("ragbench "):
            line = re.sub(
                r"\$\{\w+:\+(--[\w-]+) [^}]*\}", r"\1 x", re.split(r" (?:\|\||2>&1)", line)[0]
            )
            yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize(("where", "script"), scripts().items())
def test_every_command_and_option_exists(where: str, script: str) -> None:
    for name, *arguments in calls(script):
        command = COMMANDS.commands[name].loaded()
        if hasattr(command, "commands"):
            command = command.commands[arguments[0]]
        known = {option for parameter in command.params for option in parameter.opts}
        used = {word for word in arguments if word.startswith("--")}
        assert used <= known, where


def test_the_files_hold_calls_at_all() -> None:
    named = {where: [name for name, *_ in calls(script)] for where, script in scripts().items()}
    assert named["action: Gate"] == named["workflow: Gate"] == ["gate"]
    assert named["gitlab: ragbench"] == ["eval", "gate"]
    assert named["gitlab: ragbench-baseline"] == ["eval", "baseline"]


def test_the_action_and_the_workflows_are_complete() -> None:
    """An input inside of a script would be run as a part of it."""
    steps = [*ACTION["runs"]["steps"], *STEPS, *BASELINE_STEPS]
    assert not any("${{" in step.get("run", "") for step in steps)
    assert all("uses" in step or step["shell"] == "bash" for step in ACTION["runs"]["steps"])
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert used == set(ACTION["inputs"])
    for name in ("inputs", "outputs"):
        assert all(found["description"] for found in ACTION[name].values())
        assert all(f"`{key}`" in PAGE for key in ACTION[name])
    on = GITHUB[True]  # YAML 1.1 takes "on" for true
    assert on.keys() == {"pull_request", "merge_group", "push"}
    assert on["pull_request"] is None  # a required check that does not start blocks for ever
    assert GITHUB["defaults"]["run"]["shell"] == "bash"  # which fails where a part of a pipe does
    assert GITHUB["permissions"] == {"contents": "read"}
    rights = {"contents": "read", "pull-requests": "write"}
    assert GITHUB["jobs"]["evaluate"]["permissions"] == rights
    assert GITHUB["jobs"]["baseline"]["if"] == "${{ github.event_name == 'push' }}"
    assert GITLAB["ragbench"]["artifacts"]["reports"] == {"junit": "gate.xml"}
    (kept,) = [step for step in STEPS if step.get("id") == "kept"]
    assert kept["with"]["path"].split() == ["reports/ragbench", "gate.html", "gate.md", "gate.xml"]
    for found in (STEPS, ACTION["runs"]["steps"]):  # what links the artifact comes after it
        names = [step.get("name") for step in found]
        assert names.index("Keep the report") < names.index("Summary") < names.index("Comment")
        link = "${{ steps.kept.outputs.artifact-url }}"
        assert found[names.index("Summary")]["env"]["ARTIFACT"] == link


def test_actions_are_pinned_by_commit_with_the_tag_beside_it() -> None:
    """And nothing is installed by a bare name that anybody could take."""
    for path in (ROOT / "action.yml", TEMPLATES / "github.yml", ROOT / "docs" / "ci.md"):
        used = re.findall(r"uses: (actions/.*)", path.read_text("utf-8"))
        assert used
        for action in used:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
    for script in scripts().values():
        assert not re.search(r"pip install[^\n]* ragbench\b", script)


def test_every_yaml_block_of_the_page_parses() -> None:
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        assert yaml.safe_load(block)
    step = yaml.safe_load(re.findall(r"```yaml\n(name:.*?)```", PAGE, re.DOTALL)[0])
    assert set(step["jobs"]["evaluate"]["steps"][-1]["with"]) <= set(ACTION["inputs"])


TOOLS = Path("tools")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Runs a step's script as the forge does, with ragbench from here and a ``gh`` that notes."""
    program(
        TOOLS / "gh",
        """printf '%s\\n' "$*" >> gh.log
case "$*" in *--paginate*) printf '%s' "$COMMENTS";; esac""",
    )
    program(TOOLS / "ragbench", f'exec "{sys.executable}" -m ragbench_cli "$@"')
    tools = tmp_path / TOOLS
    known = {
        "GITHUB_OUTPUT": "output",
        "GITHUB_STEP_SUMMARY": "summary",
        "PULL": "7",
        "COMMENTS": "",
        "RUNNER_TEMP": str(tools),
    }
    return lambda script, **more: on_a_forge(script, tmp_path, tools, **(known | more))


def step(steps: list[dict[str, Any]], name: str) -> str:
    (found,) = [step["run"] for step in steps if step.get("name") == name]
    return str(found)


def ran(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def text(name: str) -> str:
    return Path(name).read_text("utf-8")


def check_summary(summary: str, link: str) -> None:
    assert "#### Checks" in summary
    assert summary.endswith(f"\n[{link}: {WHAT_IS_KEPT}\n")


@needs_bash
def test_the_actions_scripts_run(shell: Shell, tmp_path: Path) -> None:
    write_scaffold(tmp_path)
    steps: list[dict[str, Any]] = ACTION["runs"]["steps"]
    given = {"OUT": "reports/my run", "DATASET": "data", "RAG": "my_rag.py:MyRAG"}
    ran(shell(step(steps, "Evaluate"), **given, MORE="--top-k 2"))
    assert text("output") == "code=0\n"
    Path("output").unlink()
    assert json.loads(text("reports/my run/manifest.json"))["settings"]["top_k"] == 2
    gate = {"OUT": given["OUT"], "CONFIG": "", "BASELINE": "", "MORE": "", "EVALUATED": "0"}
    ran(shell(step(steps, "Gate"), **gate))
    assert text("output") == "verdict=passed\ncode=0\n"
    ran(shell(step(steps, "Summary"), OUT=given["OUT"], ARTIFACT=ARTIFACT))
    check_summary(text("summary"), f"Artifact]({ARTIFACT})")
    written = ("gate.xml", "gate.html", "report.html")
    assert all(Path(given["OUT"], name).is_file() for name in written)
    shell(step(steps, "Gate"), **(gate | {"MORE": "--min MRR@10=1 --max recall@5=0"}))
    assert "verdict=failed\ncode=1\n" in text("output")
    shell(step(steps, "Gate"), **(gate | {"BASELINE": "nowhere"}))
    assert "verdict=error\ncode=2\n" in text("output")
    for name in ("gate.html", "gate.md", "gate.xml"):  # those of the run before are gone
        assert "the baseline nowhere does not exist" in text(f"reports/my run/{name}")
    assert "### ragbench gate: could not run\n" in text("reports/my run/gate.md")
    ran(shell(step(steps, "Gate"), **(gate | {"EVALUATED": "3"})))
    assert text("output").endswith("verdict=inconclusive\ncode=3\n")
    assert "Evaluation: exit code 3, gate: 0." in text("reports/my run/gate.md")
    ran(shell(step(steps, "Summary"), OUT=given["OUT"], ARTIFACT=ARTIFACT))
    assert shell(step(steps, "Verdict"), CODE="3").returncode == 3


@needs_bash
@pytest.mark.parametrize("steps", [ACTION["runs"]["steps"], STEPS], ids=["action", "workflow"])
def test_a_comment_is_written_once_and_replaced_later(
    shell: Shell, steps: list[dict[str, Any]]
) -> None:
    Path("gate.md").write_text("<!-- of the run -->\nbody\n", "utf-8")
    ran(shell(step(steps, "Summary"), OUT=".", ARTIFACT=""))
    assert text("summary") == "<!-- of the run -->\nbody\n"  # and links no artifact
    for comments in ("", "11\n12\n"):
        ran(shell(step(steps, "Comment"), OUT=".", JOB="evaluate-0", COMMENTS=comments))
    assert text("comment.md") == "<!-- ragbench-gate evaluate-0 -->\nbody\n"
    listed, written, _, replaced = text("gh.log").splitlines()
    assert listed.startswith("api --paginate repos/me/mine/issues/7/comments --jq")
    assert "startswith(env.MARKER)" in listed
    assert "user" not in listed  # a comment that any kind of token wrote is found again
    assert re.fullmatch(
        r"api --silent repos/me/mine/issues/7/comments --field body=@\S*comment.md", written
    )
    assert replaced.startswith("api --silent --method PATCH repos/me/mine/issues/comments/11 ")


@needs_bash
def test_gitlabs_job_and_its_note_run(shell: Shell, tmp_path: Path) -> None:
    write_scaffold(tmp_path)
    program(
        TOOLS / "curl",
        """printf '%s\\n' "$*" >> curl.log
case "$*" in *per_page*) printf '%s' "$NOTES";; esac""",
    )
    job: dict[str, Any] = GITLAB["ragbench"]
    (install,) = GITLAB[".ragbench"]["before_script"]
    failed = shell(install, RAGBENCH="")
    assert failed.returncode != 0
    assert "set the variable RAGBENCH of this project" in failed.stderr
    ran(shell("\n".join(job["script"]).replace("/tmp/", "tools/")))
    assert not Path("next-baseline.json").exists()  # of a branch
    commit = "git add -A && git -c user.name=me -c user.email=me@here commit -qm"
    ran(shell(f"git init -q && {commit} 1"))
    before = ran(shell("git rev-parse HEAD")).strip()
    ran(shell(f"ragbench baseline set reports/ragbench && {commit} 2"))
    main = "\n".join(GITLAB["ragbench-baseline"]["script"])
    for parent, changed in (("0" * 40, True), (before, False)):
        Path("next-baseline.json").unlink(missing_ok=True)
        ran(shell(main, CI_COMMIT_BEFORE_SHA=parent))
        assert Path("next-baseline.json").is_file() is changed
    note = job["after_script"][0].replace("/tmp/", "tools/")
    place = "https://forge/me/mine/-/jobs/11"
    given = {
        "RAGBENCH_TOKEN": "secret",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_JOB_NAME": "ragbench",
        "CI_API_V4_URL": "https://forge/api/v4",
        "CI_PROJECT_ID": "5",
        "CI_JOB_URL": place,
    }
    mine = "<!-- ragbench-gate ragbench -->"
    for notes in ([], [{"id": 3, "body": "hello"}, {"id": 9, "body": mine}]):
        ran(shell(note, **given, NOTES=json.dumps(notes)))
    assert text("note.md").startswith(f"{mine}\n")
    check_summary(text("note.md"), f"Artifacts]({place}/artifacts/browse)")
    assert Path("gate.html").is_file()
    _, written, _, replaced = text("curl.log").splitlines()
    address = "https://forge/api/v4/projects/5/merge_requests/7/notes"
    assert "--request POST" in written
    assert written.endswith(f"body@note.md {address}")
    assert "--request PUT" in replaced
    assert replaced.endswith(f"body@note.md {address}/9")
    ran(shell(note, **(given | {"RAGBENCH_TOKEN": ""})))
