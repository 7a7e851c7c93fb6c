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
    """What is installed, by name; the rest is not."""
    there = {"ragbench": "0.1.0", "orjson": "3.10.7", "numpy": "2.4.0", "sacrebleu": "2.6.0"}

    def version(name: str) -> str:
        if name not in there:
            raise importlib.metadata.PackageNotFoundError(name)
        return there[name]

    def requires(name: str) -> list[str]:
        return REQUIREMENTS if name == "ragbench" else []

    where = "ragbench_cli.checks"
    monkeypatch.setattr(f"{where}.version", version)
    monkeypatch.setattr(f"{where}.requires", requires)
    return there


def test_what_is_installed_and_what_is_not(ragbench: Ragbench) -> None:
    done = ragbench("doctor", "--json")
    found = checks(done)
    assert (done.code, done.err) == (0, "")
    assert found["ragbench"] == ("ok", "0.1.0")
    assert found["core"] == ("ok", "orjson 3.10.7, numpy 2.4.0")
    assert found["extra text"] == ("ok", "sacrebleu 2.6.0")
    without = "without no-such-package: pip install 'ragbench[hf]'"
    assert found["extra hf"] == ("absent", without)
    assert found.keys().isdisjoint({"extra dev", "extra all"})


def test_a_missing_core_package_fails(ragbench: Ragbench, installed: dict[str, str]) -> None:
    del installed["orjson"]
    done = ragbench("doctor").ends(2, "failed  core")
    assert "without orjson: pip install --force-reinstall ragbench" in done.flat
    installed.clear()
    ragbench("doctor").ok("run from its source")


@pytest.mark.extra("text")
def test_packages_of_an_extra_are_imported() -> None:
    assert import_problem("text") == ""
    assert import_problem("core") == ""


@pytest.mark.parametrize(
    ("extra", "package", "text", "said"),
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
    text: str,
    said: str,
    own_modules: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (own_modules / f"{package}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(own_modules))
    assert said in import_problem(extra)


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


def test_an_extra_lacks_what_a_feature_of_its_package_needs(
    ragbench: Ragbench, installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other packages bring fsspec, and not what it needs for addresses on the web."""
    listed = {
        "ragbench": ['fsspec[http]>=2024.2; extra == "remote"'],
        "fsspec": [
            "aiohttp!=4.0; extra == 'http'",
            "s3fs; extra == 's3'",
            "winhttp; sys_platform == 'win32' and extra == 'http'",
        ],
    }
    monkeypatch.setattr("ragbench_cli.checks.requires", lambda name: listed.get(name))
    installed["fsspec"] = "2026.9.0"
    found = checks(ragbench("doctor", "--json"))["extra remote"]
    assert found == ("absent", "without aiohttp: pip install 'ragbench[remote]'")
    installed["aiohttp"] = "3.14.5"
    found = checks(ragbench("doctor", "--json"))["extra remote"]
    assert found == ("ok", "fsspec 2026.9.0, aiohttp 3.14.5")


def test_an_extra_that_does_not_import_fails(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ragbench_cli.checks.import_problem",
        lambda extra: "sacrebleu is broken" if extra == "text" else "",
    )
    done = ragbench("doctor").ends(2, "failed  extra text", "sacrebleu is broken")
    assert "ok      ragbench" in done.out  # the rest is checked all the same


def test_the_telemetry_of_ragas_is_shown(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, state in (("true", "off"), ("false", "on")):
        monkeypatch.setenv("RAGAS_DO_NOT_TRACK", value)
        assert checks(ragbench("doctor", "--json"))["ragas telemetry"][1].startswith(state)


@pytest.mark.parametrize("rag", ["Plain", "Coroutines"])
def test_a_rag_is_asked_one_question(ragbench: Ragbench, rag: str) -> None:
    found = checks(ragbench("doctor", "--rag", f"rags.py:{rag}", "--json").ok())
    assert found["rag loads"] == ("ok", rag)
    assert found["rag retrieves"] == ("ok", "1 context, without ids, without scores")
    assert found["rag generates"] == ("ok", "27 days")


def test_a_doubt_is_printed_and_a_failure_is_shown_where_it_is(ragbench: Ragbench) -> None:
    ragbench("doctor", "--rag", own_rag("return '27 days'", "return ['a', 'b']")).ok(
        "doubt   generation reads", "doubt   retrieval top_k", "ok      retrieval in batches"
    )
    asked = ("--question", "Is the desk open?")
    done = ragbench("doctor", "--rag", "rags.py:Failing", *asked).ends(
        2, "ok      rag retrieves", "failed  rag generates"
    )
    assert "ValueError: no [bold]desk[/nothing] here" in done.flat


def test_a_dataset_is_read_for_what_would_be_scored_wrongly(
    ragbench: Ragbench, workplace: Path
) -> None:
    found = checks(ragbench("doctor", "--dataset", "office", "--json").ok())
    assert found["data reads"] == ("ok", "3 cases, 3 documents")
    assert {state for name, (state, _) in found.items() if name.startswith("data")} == {"ok"}
    again = {"id": "c4", "query": "When is the help desk open?", "reference": "never"}
    lines(workplace / "office" / "cases.jsonl", [*CASES, again])
    ragbench("doctor", "--dataset", "office/cases.jsonl", "--corpus", "office/corpus.jsonl").ok(
        "doubt   data questions   1 case (c4) asks what another one asks"
    )


def test_a_dataset_or_corpus_that_cannot_be_read_fails(ragbench: Ragbench) -> None:
    for dataset, failed in (("nowhere", "data reads"), ("office", "corpus reads")):
        done = ragbench("doctor", "--dataset", dataset, "--corpus", "nowhere", "--json").refused()
        assert checks(done)[failed][0] == "failed"
