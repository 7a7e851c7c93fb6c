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
from tests.cli.runs import ROOT, Ragbench, fenced, on_a_forge, program

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
    scripts_by_place: dict[str, str] = {}
    steps_by_file = {
        "action": ACTION["runs"]["steps"],
        "workflow": STEPS,
        "baseline": BASELINE_STEPS,
    }
    for file, steps in steps_by_file.items():
        for step in steps:
            if "run" in step:
                scripts_by_place[f"{file}: {step['name']}"] = step["run"]
    for job in GITLAB_JOBS:
        scripts_by_place[f"gitlab: {job}"] = "\n".join(GITLAB[job]["script"])
    return scripts_by_place


def calls(script: str) -> Iterator[list[str]]:
    """The calls of ragbench in a script, as words; what the shell fills in stays as it is."""
    for line in script.replace("\\\n", " ").splitlines():
        if not line.strip().startswith("ragbench "):
            continue
        # What follows is not part of the call: `|| code=$?`, `2>&1`.
        call = re.split(r" (?:\|\||2>&1)", line)[0]
        # ${NAME:+--option "$NAME"} gives the option where the variable is set.
        call = re.sub(r"\$\{\w+:\+(--[\w-]+) [^}]*\}", r"\1 x", call)
        yield shlex.split(call, comments=True)[1:]


@pytest.mark.parametrize(("place", "script"), scripts().items())
def test_every_command_and_option_exists(place: str, script: str) -> None:
    for name, *arguments in calls(script):
        command = COMMANDS.commands[name].loaded()
        if hasattr(command, "commands"):
            command = command.commands[arguments[0]]
        options = {option for parameter in command.params for option in parameter.opts}
        used_options = {word for word in arguments if word.startswith("--")}
        assert used_options <= options, place


@pytest.mark.parametrize(
    ("place", "commands"),
    [
        ("action: Gate", ["gate"]),
        ("workflow: Gate", ["gate"]),
        ("gitlab: ragbench", ["eval", "gate"]),
        ("gitlab: ragbench-baseline", ["eval", "baseline"]),
    ],
)
def test_a_script_calls_its_commands(place: str, commands: list[str]) -> None:
    assert [name for name, *_ in calls(scripts()[place])] == commands


# --- the action and the workflows


def test_no_value_of_the_forge_stands_inside_of_a_script() -> None:
    """An input inside of a script would be run as a part of it."""
    for step in [*ACTION["runs"]["steps"], *STEPS, *BASELINE_STEPS]:
        assert "${{" not in step.get("run", "")


def test_every_script_of_the_action_names_its_shell() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "uses" in step or step["shell"] == "bash"


def test_every_input_of_the_action_is_used() -> None:
    file = (ROOT / "action.yml").read_text("utf-8")
    used = re.findall(r"inputs\.([\w-]+)", file)

    assert set(used) == set(ACTION["inputs"])


@pytest.mark.parametrize("section", ["inputs", "outputs"])
def test_every_input_and_output_is_described_there_and_on_the_page(section: str) -> None:
    for name, value in ACTION[section].items():
        assert value["description"]
        assert f"`{name}`" in PAGE


def test_the_workflow_runs_for_every_pull_request() -> None:
    events = GITHUB[True]  # YAML 1.1 takes "on" for true

    assert events.keys() == {"pull_request", "merge_group", "push"}
    # Without a filter: a required check that does not start blocks for ever.
    assert events["pull_request"] is None


def test_a_step_of_the_workflow_fails_where_a_part_of_a_pipe_does() -> None:
    assert GITHUB["defaults"]["run"]["shell"] == "bash"


def test_the_workflow_may_read_and_its_comment_be_written() -> None:
    assert GITHUB["permissions"] == {"contents": "read"}
    assert GITHUB["jobs"]["evaluate"]["permissions"] == {
        "contents": "read",
        "pull-requests": "write",
    }


def test_a_baseline_is_made_of_a_push_alone() -> None:
    assert GITHUB["jobs"]["baseline"]["if"] == "${{ github.event_name == 'push' }}"


def test_gitlab_shows_the_checks_of_a_gate_as_tests() -> None:
    assert GITLAB["ragbench"]["artifacts"]["reports"] == {"junit": "gate.xml"}


def test_the_workflow_keeps_the_report_and_the_pages_of_the_gate() -> None:
    (step,) = [step for step in STEPS if step.get("id") == "kept"]

    paths = step["with"]["path"].split()
    assert paths == ["reports/ragbench", "gate.html", "gate.md", "gate.xml"]


@pytest.mark.parametrize("steps", [ACTION["runs"]["steps"], STEPS], ids=["action", "workflow"])
def test_what_links_the_artifact_comes_after_it(steps: list[dict[str, Any]]) -> None:
    names = [step.get("name") for step in steps]
    artifact, summary, comment = (
        names.index("Keep the report"),
        names.index("Summary"),
        names.index("Comment"),
    )

    assert artifact < summary < comment
    assert steps[summary]["env"]["ARTIFACT"] == "${{ steps.kept.outputs.artifact-url }}"


@pytest.mark.parametrize(
    "path",
    [ROOT / "action.yml", TEMPLATES / "github.yml", ROOT / "docs" / "ci.md"],
    ids=["action", "workflow", "page"],
)
def test_actions_are_pinned_by_commit_with_the_tag_beside_it(path: Path) -> None:
    actions = re.findall(r"uses: (actions/.*)", path.read_text("utf-8"))

    assert actions != []
    for action in actions:
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)


@pytest.mark.parametrize(("place", "script"), scripts().items())
def test_nothing_is_installed_by_a_bare_name_that_anybody_could_take(
    place: str, script: str
) -> None:
    assert re.search(r"pip install[^\n]* ragbench\b", script) is None, place


def test_every_yaml_block_of_the_page_parses() -> None:
    for block in fenced(PAGE, "yaml"):
        assert yaml.safe_load(block)


def test_the_page_gives_the_action_inputs_that_it_has() -> None:
    workflows = [block for block in fenced(PAGE, "yaml") if block.startswith("name:")]
    workflow = yaml.safe_load(workflows[0])

    action_step = workflow["jobs"]["evaluate"]["steps"][-1]

    assert set(action_step["with"]) <= set(ACTION["inputs"])


# --- the scripts, run as a forge runs them

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
    variables = {
        "GITHUB_OUTPUT": "output",
        "GITHUB_STEP_SUMMARY": "summary",
        "PULL": "7",
        "COMMENTS": "",
        "RUNNER_TEMP": str(tools),
    }

    def run_script(script: str, **more: str) -> subprocess.CompletedProcess[str]:
        return on_a_forge(script, tmp_path, tools, **(variables | more))

    return run_script


def script_of(steps: list[dict[str, Any]], name: str) -> str:
    (step,) = [step for step in steps if step.get("name") == name]
    return str(step["run"])


def ran(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def text(name: str) -> str:
    return Path(name).read_text("utf-8")


ACTION_STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
OUT = "reports/my run"


@pytest.fixture
def evaluated(ragbench: Ragbench, tmp_path: Path) -> Path:
    """The folder of a run over the scaffold, as the step Evaluate leaves it."""
    write_scaffold(tmp_path)
    ragbench("eval", "data", "--rag", "my_rag.py:MyRAG", "--out", OUT, "--quiet").ok()
    return Path(OUT)


def run_gate(shell: Shell, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs the action's gate over the run; an input that is not changed is empty."""
    inputs = {
        "OUT": OUT,
        "CONFIG": "",
        "BASELINE": "",
        "MORE": "",
        "EVALUATED": "0",
    }
    return shell(script_of(ACTION_STEPS, "Gate"), **(inputs | changes))


@needs_bash
def test_the_action_evaluates_with_further_arguments(shell: Shell, tmp_path: Path) -> None:
    write_scaffold(tmp_path)
    inputs = {"OUT": OUT, "DATASET": "data", "RAG": "my_rag.py:MyRAG", "MORE": "--top-k 2"}

    ran(shell(script_of(ACTION_STEPS, "Evaluate"), **inputs))

    assert text("output") == "code=0\n"
    manifest = json.loads(text(f"{OUT}/manifest.json"))
    assert manifest["settings"]["top_k"] == 2


@needs_bash
def test_the_action_says_that_a_gate_passed_and_shows_its_checks(
    shell: Shell, evaluated: Path
) -> None:
    ran(run_gate(shell))
    ran(shell(script_of(ACTION_STEPS, "Summary"), OUT=OUT, ARTIFACT=ARTIFACT))

    assert text("output") == "verdict=passed\ncode=0\n"
    assert (evaluated / "gate.xml").is_file()
    assert (evaluated / "gate.html").is_file()
    assert (evaluated / "report.html").is_file()
    summary = text("summary")
    assert "#### Checks" in summary
    assert summary.endswith(f"\n[Artifact]({ARTIFACT}): {WHAT_IS_KEPT}\n")


@needs_bash
@pytest.mark.usefixtures("evaluated")
def test_the_action_says_that_a_gate_failed(shell: Shell) -> None:
    run_gate(shell, MORE="--min MRR@10=1 --max recall@5=0")

    assert text("output") == "verdict=failed\ncode=1\n"


@needs_bash
def test_the_action_replaces_the_pages_of_the_gate_before_by_an_error(
    shell: Shell, evaluated: Path
) -> None:
    for name in ("gate.html", "gate.md", "gate.xml"):
        (evaluated / name).write_text("passed, in the run before", "utf-8")

    run_gate(shell, BASELINE="nowhere")

    assert text("output") == "verdict=error\ncode=2\n"
    for name in ("gate.html", "gate.md", "gate.xml"):
        page = (evaluated / name).read_text("utf-8")
        assert "the baseline nowhere does not exist" in page
        assert "in the run before" not in page
    assert "### ragbench gate: could not run\n" in text(f"{OUT}/gate.md")


@needs_bash
@pytest.mark.usefixtures("evaluated")
def test_the_action_does_not_pass_where_the_evaluation_was_inconclusive(shell: Shell) -> None:
    ran(run_gate(shell, EVALUATED="3"))

    assert text("output") == "verdict=inconclusive\ncode=3\n"
    assert "Evaluation: exit code 3, gate: 0." in text(f"{OUT}/gate.md")


@needs_bash
def test_the_action_ends_with_the_code_of_its_verdict(shell: Shell) -> None:
    assert shell(script_of(ACTION_STEPS, "Verdict"), CODE="3").returncode == 3


# --- comments


@needs_bash
@pytest.mark.parametrize("steps", [ACTION_STEPS, STEPS], ids=["action", "workflow"])
def test_a_summary_without_an_artifact_links_none(
    shell: Shell, steps: list[dict[str, Any]]
) -> None:
    Path("gate.md").write_text("<!-- of the run -->\nbody\n", "utf-8")

    ran(shell(script_of(steps, "Summary"), OUT=".", ARTIFACT=""))

    assert text("summary") == "<!-- of the run -->\nbody\n"


def comment_calls(shell: Shell, steps: list[dict[str, Any]], comments: str) -> list[str]:
    """The calls of gh by the step Comment, where these comments are the job's own already."""
    Path("gate.md").write_text("<!-- of the run -->\nbody\n", "utf-8")
    ran(shell(script_of(steps, "Comment"), OUT=".", JOB="evaluate-0", COMMENTS=comments))
    return text("gh.log").splitlines()


@needs_bash
@pytest.mark.parametrize("steps", [ACTION_STEPS, STEPS], ids=["action", "workflow"])
def test_the_first_comment_of_a_job_is_written_with_its_marker(
    shell: Shell, steps: list[dict[str, Any]]
) -> None:
    listed, written = comment_calls(shell, steps, comments="")

    assert text("comment.md") == "<!-- ragbench-gate evaluate-0 -->\nbody\n"
    assert listed.startswith("api --paginate repos/me/mine/issues/7/comments --jq")
    assert "startswith(env.MARKER)" in listed
    assert "user" not in listed  # a comment that any kind of token wrote is found again
    assert re.fullmatch(
        r"api --silent repos/me/mine/issues/7/comments --field body=@\S*comment.md", written
    )


@needs_bash
@pytest.mark.parametrize("steps", [ACTION_STEPS, STEPS], ids=["action", "workflow"])
def test_a_later_comment_of_a_job_replaces_its_first(
    shell: Shell, steps: list[dict[str, Any]]
) -> None:
    _, replaced = comment_calls(shell, steps, comments="11\n12\n")

    assert replaced.startswith("api --silent --method PATCH repos/me/mine/issues/comments/11 ")


# --- gitlab


def gitlab_script(lines: list[str]) -> str:
    """One script of lines of the file, which writes into the folder of the test."""
    return "\n".join(lines).replace("/tmp/", "tools/")


@needs_bash
def test_gitlabs_job_says_which_variable_is_missing(shell: Shell) -> None:
    failed = shell(gitlab_script(GITLAB[".ragbench"]["before_script"]), RAGBENCH="")

    assert failed.returncode != 0
    assert "set the variable RAGBENCH of this project" in failed.stderr


@needs_bash
def test_gitlabs_job_evaluates_and_gates(shell: Shell, tmp_path: Path) -> None:
    write_scaffold(tmp_path)

    ran(shell(gitlab_script(GITLAB["ragbench"]["script"])))

    assert text("tools/evaluated") == "0\n"
    assert "#### Checks" in text("gate.md")
    assert Path("gate.html").is_file()
    assert Path("gate.xml").is_file()
    assert not Path("next-baseline.json").exists()  # a branch is no baseline


@needs_bash
def test_gitlabs_baseline_follows_a_change_and_not_its_own_merge(
    shell: Shell, tmp_path: Path
) -> None:
    write_scaffold(tmp_path)
    commit = "git add -A && git -c user.name=me -c user.email=me@here commit -qm"
    baseline_job = gitlab_script(GITLAB["ragbench-baseline"]["script"])
    ran(shell(f"git init -q && {commit} 1"))
    before = ran(shell("git rev-parse HEAD")).strip()

    # Nothing was there before the first commit: all of it is a change.
    ran(shell(baseline_job, CI_COMMIT_BEFORE_SHA="0" * 40))
    assert Path("next-baseline.json").is_file()

    Path("next-baseline.json").rename("ragbench-baseline.json")
    ran(shell(f"{commit} 2 -- ragbench-baseline.json"))
    ran(shell(baseline_job, CI_COMMIT_BEFORE_SHA=before))
    assert not Path("next-baseline.json").exists()


MARKER = "<!-- ragbench-gate ragbench -->"
NOTES_ADDRESS = "https://forge/api/v4/projects/5/merge_requests/7/notes"
MERGE_REQUEST = {
    "RAGBENCH_TOKEN": "secret",
    "CI_MERGE_REQUEST_IID": "7",
    "CI_JOB_NAME": "ragbench",
    "CI_API_V4_URL": "https://forge/api/v4",
    "CI_PROJECT_ID": "5",
    "CI_JOB_URL": "https://forge/me/mine/-/jobs/11",
}


@pytest.fixture
def gated() -> str:
    """What gitlab's job leaves to the script after it, which is given."""
    program(
        TOOLS / "curl",
        'printf \'%s\\n\' "$*" >> curl.log\ncase "$*" in *per_page*) printf \'%s\' "$NOTES";; esac',
    )
    Path("tools/evaluated").write_text("0\n", "utf-8")
    Path("gate.md").write_text("<!-- ragbench-gate -->\n\n#### Checks\n", "utf-8")
    return gitlab_script(GITLAB["ragbench"]["after_script"])


@needs_bash
def test_gitlabs_first_note_is_written_with_the_marker_of_its_job(shell: Shell, gated: str) -> None:
    ran(shell(gated, **MERGE_REQUEST, NOTES="[]"))

    note = text("note.md")
    assert note.startswith(f"{MARKER}\n")
    assert "#### Checks" in note
    artifacts = "https://forge/me/mine/-/jobs/11/artifacts/browse"
    assert note.endswith(f"\n[Artifacts]({artifacts}): {WHAT_IS_KEPT}\n")
    _, written = text("curl.log").splitlines()
    assert "--request POST" in written
    assert written.endswith(f"body@note.md {NOTES_ADDRESS}")


@needs_bash
def test_gitlabs_later_note_replaces_its_first(shell: Shell, gated: str) -> None:
    notes = [
        {"id": 3, "body": "hello"},
        {"id": 9, "body": MARKER},
    ]

    ran(shell(gated, **MERGE_REQUEST, NOTES=json.dumps(notes)))

    _, replaced = text("curl.log").splitlines()
    assert "--request PUT" in replaced
    assert replaced.endswith(f"body@note.md {NOTES_ADDRESS}/9")


@needs_bash
def test_gitlab_writes_no_note_without_a_token(shell: Shell, gated: str) -> None:
    ran(shell(gated, **(MERGE_REQUEST | {"RAGBENCH_TOKEN": ""})))

    assert not Path("curl.log").exists()
