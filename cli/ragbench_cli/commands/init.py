"""``ragbench init``: a project that runs as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.safe_text import did_you_mean
from ragbench_cli import console
from ragbench_cli.options import JsonOption, argument, option, takes_records
from ragbench_cli.output import show

FILES = {
    "ragbench.yaml": "ragbench.yaml",
    "my_rag.py": "my_rag.py",
    "data/cases.jsonl": "cases.jsonl",
    "data/corpus.jsonl": "corpus.jsonl",
    ".gitignore": "gitignore",
    ".github/workflows/ragbench.yml": "github.yml",
    ".gitlab/ragbench.yml": "gitlab.yml",
}
"""Path in the folder, and the template beside this module."""

EXTRAS = {"pipeline": "pipeline.yaml", "post-retrieval": "post_retrieval.yaml"}
"""Further templates by what they are asked for with."""


def write_scaffold(
    folder: Path,
    *,
    force: bool = False,
    extras: Sequence[str] = (),
    contents: Mapping[str, bytes] | None = None,
    is_project: bool = True,
) -> tuple[list[str], list[str]]:
    """Writes those files of a new project that are not there yet.

    The result names the files that were written, and those that were left. A user who runs `init`
    twice keeps what he edited.

    Args:
        force: overwrite those that are there.
        extras: further templates, by what they are asked for with.
        contents: files with their content, in place of templates or beside them.
        is_project: write a whole project, and not the extras alone.
    """
    from importlib.resources import files

    from ragbench.io.atomic import written_whole

    templates = files("ragbench_cli") / "templates"
    template_names: dict[str, str] = {}
    if is_project:
        template_names.update(FILES)
    for extra in extras:
        file_name = EXTRAS[extra]  # of the template and of the file that is written
        template_names[file_name] = file_name
    files_to_write: dict[str, bytes] = {}
    for name, template in template_names.items():
        files_to_write[name] = (templates / template).read_bytes()
    # Given content goes before a template of the same name.
    if contents is not None:
        files_to_write.update(contents)
    files_to_write = _with_schemas(files_to_write)
    written: list[str] = []
    existing: list[str] = []
    for name, content in files_to_write.items():
        # What the user has edited stays, unless he asks for a new beginning.
        if (folder / name).exists() and not force:
            existing.append(name)
            continue
        with written_whole(folder / name, make_folders=True, is_private=False) as file:
            file.write(content)
        written.append(name)
    return written, existing


def _with_schemas(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a project with the JSON schemas that their YAML files need.

    The first line of each of ragbench's YAML files names its schema, so that editors complete it.
    """
    from ragbench_cli.schemas import SCHEMAS, schema_bytes, schema_line, schema_path

    files: dict[str, bytes] = dict(contents)
    for name in SCHEMAS:
        # Only for files that this project has.
        content = contents.get(f"{name}.yaml")
        if content is not None:
            files[f"{name}.yaml"] = schema_line(name).encode() + content
            files[schema_path(name)] = schema_bytes(name)
    return files


class InitOptions(Record):
    """What is written, and where."""

    folder: Annotated[Path, argument("[DIR]")] = Path()
    """Where to write; the current folder by default."""
    force: bool = False
    """Overwrite existing files."""
    extras: Annotated[list[str] | None, option("--with", complete=tuple(EXTRAS))] = None
    """Also write this; repeatable. Available: pipeline, a file that describes the six stages of a
    RAG; post-retrieval, a file of operators between retrieval and answer."""
    post_retrieval: bool = False
    """Write only post_retrieval.yaml, a file of operators that works as it is, and the schema by
    which editors complete it."""
    measured: Annotated[list[Path] | None, option("RUN")] = None
    """A run of your system; give it twice or more, with runs of one unchanged system. Their mean
    becomes the baseline, and ragbench.yaml has tolerances that fit."""


@takes_records
def command(options: InitOptions, json: JsonOption = False) -> None:
    """Write a project to start from.

    A configuration, an example RAG, a small dataset, a workflow for GitHub and one for GitLab. It
    runs as it is; existing files are not changed.

    \b
    Examples:
      ragbench init
      ragbench init my-project
      ragbench init my-project --with pipeline
      ragbench init --post-retrieval
      ragbench init --measured run-1 --measured run-2
    """
    # Checked before anything is written: a project of half its files helps nobody.
    extras = list(options.extras or ())
    if options.post_retrieval and (extras or options.measured):
        raise ConfigError("--post-retrieval writes one file alone: leave out --with and --measured")
    for name in extras:
        if name not in EXTRAS:
            meant = did_you_mean(name, EXTRAS)
            raise ConfigError(f"--with must be one of {', '.join(EXTRAS)}, not '{name}'.{meant}")
    folder = options.folder
    contents: dict[str, bytes] = {}
    if options.measured:
        contents = _baseline_files(options.measured)
    # An operator file goes into a project that exists: it is written alone.
    if options.post_retrieval:
        extras = ["post-retrieval"]
    written, existing = write_scaffold(
        folder,
        force=options.force,
        extras=extras,
        contents=contents,
        is_project=not options.post_retrieval,
    )
    # Paths alone on standard output, for a pipe; the sentences below are on standard error.
    paths = "".join(f"{folder / name}\n" for name in written)
    result = {"folder": str(folder), "written": written, "left": existing}
    show(result, partial(typer.echo, paths, nl=False), json=json)
    for name in existing:
        console.say(f"exists, left as it is: {folder / name}")
    if existing:
        console.say("--force overwrites them.")
    if written and options.post_retrieval:
        file = folder / EXTRAS["post-retrieval"]
        console.say(f"\nnext  ragbench eval DATASET --rag RAG --post-retrieval {file}")
    elif written:
        _say_next(folder, pipeline="pipeline" in extras)


def _baseline_files(runs: Sequence[Path]) -> dict[str, bytes]:
    """The baseline file made of runs, and a ragbench.yaml with the limits that fit their cases.

    Limits that fit are those that noise between runs of one system does not break.
    """
    from ragbench.gate.baseline_file import baseline_bytes
    from ragbench.gate.history import fitted_limits
    from ragbench.gate.main_runs import baseline_of
    from ragbench.gate.runs import read_run
    from ragbench.views.history import limits_yaml

    scores = [read_run(run) for run in runs]
    name = "ragbench-baseline.json"
    command_line = ["init"]  # the file names the command that wrote it
    for run in runs:
        command_line += ["--measured", str(run)]
    text = limits_yaml(fitted_limits(scores), scores, command_line, name)
    return {"ragbench.yaml": text.encode(), name: baseline_bytes(baseline_of(scores))}


def _say_next(folder: Path, *, pipeline: bool) -> None:
    """Reports the commands to try a new project with.

    They run as they are, in the folder of the project.

    Args:
        pipeline: whether the project has a pipeline file.
    """
    import shlex

    steps: list[str] = []
    # In the present folder there is nothing to change to.
    if folder != Path():
        steps.append(f"cd {shlex.quote(str(folder))}")
    steps.append("ragbench eval data --rag my_rag.py:MyRAG --out reports/ragbench")
    steps.append("ragbench gate reports/ragbench")
    if pipeline:
        steps.append("ragbench eval data --pipeline pipeline.yaml")
    console.say("\nnext  " + "\n      ".join(steps))
