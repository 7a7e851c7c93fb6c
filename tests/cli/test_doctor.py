"""``ragbench doctor``: what is there, what is not, and whether a RAG answers."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from ragbench_cli.checks import import_problem
from tests.cli.conftest import CASES
from tests.cli.runs import Ragbench, checks, lines, own_rag

REQUIREMENTS = [
    "orjson>=3",
    'numpy>=2.1; python_version >= "3.13"',
    "numpy>=1.26",
    'sacrebleu>=2.4; extra == "text"',
    'no-such-package>=1; extra == "hf"',
    "ragbench[hf,text]; extra == 'all'",
    'pytest>=8; extra == "dev"',
]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The versions of the packages that are installed; all others are not."""
    version_of = {
        "ragbench": "0.1.0",
        "orjson": "3.10.7",
        "numpy": "2.4.0",
        "sacrebleu": "2.6.0",
    }

    def version(name: str) -> str:
        if name not in version_of:
            raise importlib.metadata.PackageNotFoundError(name)
        return version_of[name]

    def requires(name: str) -> list[str]:
        return REQUIREMENTS if name == "ragbench" else []

    monkeypatch.setattr("ragbench_cli.checks.version", version)
    monkeypatch.setattr("ragbench_cli.checks.requires", requires)
    return version_of


# --- what is installed


def test_doctor_lists_what_is_installed(ragbench: Ragbench) -> None:
    done = ragbench("doctor", "--json").ok()

    check_of = checks(done)
    assert check_of["ragbench"] == ("ok", "0.1.0")
    assert check_of["core"] == ("ok", "orjson 3.10.7, numpy 2.4.0")
    assert check_of["extra text"] == ("ok", "sacrebleu 2.6.0")
    assert done.err == ""


def test_doctor_says_how_an_extra_is_installed(ragbench: Ragbench) -> None:
    check_of = checks(ragbench("doctor", "--json").ok())

    command = "pip install 'ragbench[hf]'"
    assert check_of["extra hf"] == ("absent", f"without no-such-package: {command}")


@pytest.mark.parametrize("extra", ["dev", "all"])
def test_doctor_does_not_list_extras_that_are_no_feature(ragbench: Ragbench, extra: str) -> None:
    done = ragbench("doctor", "--json")

    assert f"extra {extra}" not in checks(done)


def test_a_missing_core_package_fails(ragbench: Ragbench, installed: dict[str, str]) -> None:
    del installed["orjson"]

    done = ragbench("doctor").ends(2, "failed  core")

    assert "without orjson: pip install --force-reinstall ragbench" in done.flat


def test_where_nothing_is_installed_it_runs_from_its_source(
    ragbench: Ragbench, installed: dict[str, str]
) -> None:
    installed.clear()

    ragbench("doctor").ok("run from its source")


# --- what cannot be imported


@pytest.mark.extra("text")
def test_packages_of_an_extra_are_imported() -> None:
    assert import_problem("text") == ""
    assert import_problem("core") == ""


@pytest.mark.parametrize(
    ("extra", "package", "code", "message"),
    [
        (
            "text",
            "sacrebleu",
            "import no_such_package",
            "its package 'sacrebleu' cannot be imported: it needs 'no_such_package', which is not "
            "installed. Install it with: pip install 'ragbench[text]'",
        ),
        (
            "text",
            "rouge_score",
            "raise AttributeError('np.float_ was removed')",
            "its package 'rouge-score' cannot be imported: AttributeError: np.float_ was removed. "
            "Install it with: pip install --force-reinstall 'ragbench[text]'",
        ),
        (
            "hf",
            "pandas",
            "raise ValueError('numpy.dtype size changed')",
            "its package 'datasets' cannot be imported: 'pandas', which it "
            "imports, raises ValueError: "
            "numpy.dtype size changed. Install it with: pip install "
            "--force-reinstall 'ragbench[hf]'",
        ),
        (
            "hf",
            "pyarrow",
            "import os; os._exit(7)",
            "importing its package 'datasets' ended Python with exit code 7. "
            "Install it with: pip install "
            "--force-reinstall 'ragbench[hf]'",
        ),
        (
            "core",
            "semchunk",
            "raise ImportError('wrong ELF class')",
            "semchunk: ImportError: wrong ELF class. Install it with: pip "
            "install --force-reinstall ",
        ),
    ],
)
def test_a_package_that_cannot_be_imported_is_named_with_its_error(
    extra: str,
    package: str,
    code: str,
    message: str,
    own_modules: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (own_modules / f"{package}.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(str(own_modules))

    assert message in import_problem(extra)


@pytest.mark.extra("text")
def test_doctor_names_the_broken_package_of_an_installed_extra(
    ragbench: Ragbench, own_modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_modules / "sacrebleu.py").write_text("import no_such_package", "utf-8")
    monkeypatch.syspath_prepend(str(own_modules))
    monkeypatch.setattr("ragbench_cli.checks.import_problem", import_problem)

    done = ragbench("doctor", "--json").ends(2)

    state, detail = checks(done)["extra text"]
    assert state == "failed"
    assert "'sacrebleu' cannot be imported: it needs 'no_such_package'" in detail
    assert "pip install 'ragbench[text]'" in detail


def test_an_extra_that_does_not_import_fails_and_the_others_are_checked(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem_of = {"text": "sacrebleu is broken"}
    monkeypatch.setattr(
        "ragbench_cli.checks.import_problem", lambda extra: problem_of.get(extra, "")
    )

    done = ragbench("doctor")

    done.ends(2, "failed  extra text", "sacrebleu is broken", "ok      ragbench")


@pytest.fixture
def _remote_needs_fsspec_for_the_web(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other packages bring fsspec, and not what it needs for addresses on the web."""
    requirements_of = {
        "ragbench": ['fsspec[http]>=2024.2; extra == "remote"'],
        "fsspec": [
            "aiohttp!=4.0; extra == 'http'",
            "s3fs; extra == 's3'",
            "winhttp; sys_platform == 'win32' and extra == 'http'",
        ],
    }
    monkeypatch.setattr("ragbench_cli.checks.requires", requirements_of.get)
    installed["fsspec"] = "2026.9.0"


@pytest.mark.usefixtures("_remote_needs_fsspec_for_the_web")
def test_an_extra_lacks_what_a_feature_of_its_package_needs(ragbench: Ragbench) -> None:
    check_of = checks(ragbench("doctor", "--json"))

    command = "pip install 'ragbench[remote]'"
    assert check_of["extra remote"] == ("absent", f"without aiohttp: {command}")


@pytest.mark.usefixtures("_remote_needs_fsspec_for_the_web")
def test_an_extra_with_what_a_feature_of_its_package_needs_is_complete(
    ragbench: Ragbench, installed: dict[str, str]
) -> None:
    installed["aiohttp"] = "3.14.5"

    check_of = checks(ragbench("doctor", "--json"))

    assert check_of["extra remote"] == ("ok", "fsspec 2026.9.0, aiohttp 3.14.5")


@pytest.mark.parametrize(("value", "state"), [("true", "off"), ("false", "on")])
def test_the_telemetry_of_ragas_is_shown(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch, value: str, state: str
) -> None:
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", value)

    _, detail = checks(ragbench("doctor", "--json"))["ragas telemetry"]

    assert detail.startswith(state)


# --- a RAG


@pytest.mark.parametrize("rag", ["Plain", "Coroutines"])
def test_a_rag_is_asked_one_question(ragbench: Ragbench, rag: str) -> None:
    done = ragbench("doctor", "--rag", f"rags.py:{rag}", "--json").ok()

    check_of = checks(done)
    assert check_of["rag loads"] == ("ok", rag)
    assert check_of["rag retrieves"] == ("ok", "1 context, without ids, without scores")
    assert check_of["rag generates"] == ("ok", "27 days")


def test_a_doubt_is_printed_and_does_not_fail(ragbench: Ragbench) -> None:
    """The RAG answers without reading its contexts, and retrieves two whatever is asked for."""
    rag = own_rag("return '27 days'", "return ['a', 'b']")

    done = ragbench("doctor", "--rag", rag)

    done.ok("doubt   generation reads", "doubt   retrieval top_k", "ok      retrieval in batches")


def test_a_failure_is_shown_where_it_is(ragbench: Ragbench) -> None:
    done = ragbench("doctor", "--rag", "rags.py:Failing", "--question", "Is the desk open?")

    done.ends(2, "ok      rag retrieves", "failed  rag generates")
    assert "ValueError: no [bold]desk[/nothing] here" in done.flat


# --- a dataset


def test_a_dataset_in_order_is_ok(ragbench: Ragbench) -> None:
    done = ragbench("doctor", "--dataset", "office", "--json").ok()

    check_of = checks(done)
    assert check_of["data reads"] == ("ok", "3 cases, 3 documents")
    for name, (state, _) in check_of.items():
        if name.startswith("data"):
            assert state == "ok"


def test_a_question_that_is_asked_twice_is_in_doubt(ragbench: Ragbench) -> None:
    asks_what_c2_asks = {"id": "c4", "query": "When is the help desk open?", "reference": "never"}
    lines("office/cases.jsonl", [*CASES, asks_what_c2_asks])

    done = ragbench("doctor", "--dataset", "office/cases.jsonl", "--corpus", "office/corpus.jsonl")

    done.ok("doubt   data questions   1 case (c4) asks what another one asks")


@pytest.mark.parametrize(
    ("dataset", "check"),
    [("nowhere", "data reads"), ("office", "corpus reads")],
    ids=["no dataset", "no corpus"],
)
def test_a_dataset_or_corpus_that_cannot_be_read_fails(
    ragbench: Ragbench, dataset: str, check: str
) -> None:
    done = ragbench("doctor", "--dataset", dataset, "--corpus", "nowhere", "--json").refused()

    state, _ = checks(done)[check]
    assert state == "failed"
