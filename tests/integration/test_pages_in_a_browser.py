"""Pages in a real Chromium: nothing runs that a text says, nothing is fetched, all can be used."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Generator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import cases_of, lines
from tests.pages import CHROMIUM, DRIVER, Changed, browser, hostile_run

LIMIT = "12"
AXE = "axe.run().then(arguments[arguments.length - 1])"
PELLORIN = Path(__file__).parents[2] / "datasets" / "pellorin"
pytest.importorskip("selenium", reason="selenium is not installed: pip install '.[dev]'")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no Chromium: apt-get install chromium chromium-driver",
)


@pytest.fixture(scope="module")
def driver() -> Generator[Any]:
    with browser() as found:
        yield found


def ragbench(*arguments: object) -> int:
    from ragbench_cli.main import main

    return main([str(argument) for argument in arguments])


def compared(folder: Path, one: Path, other: Path) -> dict[str, Path]:
    """The pages of two runs of which the second is worse."""
    found = {name: folder / f"{name}.html" for name in ("against", "compare", "gate", "label")}
    ragbench("report", other, "--against", one, "--html", found["against"])
    ragbench("compare", one, other, "--html", found["compare"])
    drop = ("--baseline", one, "--max-drop", "recall@5=0.01")
    ragbench("gate", other, *drop, "--html", found["gate"])
    pairs = ("label", other, "--against", one, "-m", "token_f1", "-n", 100, "--show-judge")
    assert ragbench(*pairs, "--page", found["label"]) == 0
    return {"run": one / "report.html", **found}


HOSTILE = {"run": 100, "against": 100, "compare": 30, "gate": 30, "label": 20}
"""Pages of hostile runs, and the fewest cases that each shows."""
PAGES = ("run", "against", "compare", "gate", "label", "ablate", "validate")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    one, other = folder / "one", folder / "other"
    hostile_run(one)
    hostile_run(other, Changed())
    return compared(folder, one, other)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    run, other = folder / "run", folder / "other"
    limited = ("--limit", LIMIT, "-q")
    assert (
        ragbench(
            "eval", PELLORIN, "--rag", "baseline", "--out", run, *limited, "--validate", "lexical"
        )
        == 0
    )
    assert (
        ragbench("eval", PELLORIN, "--rag", "baseline", "--out", other, *limited, "--top-k", 1) == 0
    )
    (folder / "variants.yaml").write_text(
        "variants:\n- name: all\n  operators: []\n"
        "- name: two\n  operators:\n  - {action: filter, type: top_k, k: 2}\n",
        "utf-8",
    )
    found = compared(folder, run, other)
    found |= {name: folder / f"{name}.html" for name in ("ablate", "validate")}
    variants = ("--variants", folder / "variants.yaml", "-m", "recall@5")
    ragbench("ablate", run, *variants, "--html", found["ablate"])
    lexical, earlier = ("--validator", "lexical", "-q"), folder / "earlier.jsonl"
    ragbench("validate", other, *lexical, "-o", earlier)
    ragbench("validate", run, *lexical, "--against", earlier, "--html", found["validate"])
    ragbench("report", run, "--html-folder", folder / "folder")
    return {**found, "folder": folder / "folder" / "index.html"}


def opened(driver: Any, page: Path, fragment: str = "") -> None:
    driver.get("about:blank")
    driver.get_log("performance")
    driver.get_log("browser")
    driver.get(page.as_uri() + fragment)


def requested(driver: Any) -> list[str]:
    """Everything that the page asked for, but itself."""
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    urls = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in urls if not re.search(r"\.(html|css|js)(#.*)?$", url) or "http" in url]


def logged(driver: Any) -> list[str]:
    return [entry["message"] for entry in driver.get_log("browser")]


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "without its policy"])
@pytest.mark.parametrize(("name", "least"), HOSTILE.items())
def test_no_payload_runs_and_nothing_is_asked_for(
    driver: Any, hostile: dict[str, Path], name: str, least: int, policy: bool
) -> None:
    page, text = hostile[name], hostile[name].read_text("utf-8")
    if not policy:
        page = page.with_name(f"bare-{name}.html")
        bare = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", text)
        page.write_text(bare, "utf-8")
        assert bare != text
    opened(driver, page)
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    shown = "return document.querySelectorAll('.case, .flip, .task').length"
    assert driver.execute_script(shown) >= least
    assert not driver.execute_script("return document.documentElement.dataset.hit || window.hit")
    assert requested(driver) == []
    own = "return document.querySelectorAll('script, iframe, img, link, base, form, object').length"
    # Its own script, and the filter's form.
    assert driver.execute_script(own) == (2 if name in ("run", "against", "label") else 1)
    if policy:
        assert logged(driver) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_quiet_and_accessible(driver: Any, pages: dict[str, Path], name: str) -> None:
    opened(driver, pages[name])
    driver.set_script_timeout(120)
    axe = files("axe_core_python") / "axe.min.js"
    driver.execute_script(axe.read_text("utf-8"))
    assert requested(driver) == []
    assert logged(driver) == []
    if name in ("run", "against"):
        driver.execute_script("document.querySelector('#list .case').open = true")
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        found = driver.execute_async_script(AXE)["violations"]
        reported = [(each["id"], each["nodes"][0]["html"][:200]) for each in found]
        assert reported == [], scheme


def test_a_page_with_its_script_and_style_as_files_works(
    driver: Any, pages: dict[str, Path]
) -> None:
    opened(driver, pages["folder"])
    assert logged(driver) == []
    assert len(shown(driver)) == int(LIMIT)
    names = sorted(path.name for path in pages["folder"].parent.iterdir())
    assert names == ["index.html", "report.css", "report.js"]


@pytest.mark.parametrize("width", [360, 2000])
def test_no_page_is_wider_than_its_window(driver: Any, pages: dict[str, Path], width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for name in PAGES:
            opened(driver, pages[name])
            wide = driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, name
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def shown(driver: Any) -> list[str]:
    script = "return [...document.querySelectorAll('#list .id')].map(e => e.textContent)"
    return list(driver.execute_script(script))


def test_the_page_is_a_work_list(driver: Any, pages: dict[str, Path]) -> None:
    found = {case["id"]: case for case in cases_of(pages["run"].parent)}
    causes = {id: case["attribution"]["cause"] for id, case in found.items()}
    opened(driver, pages["run"])
    assert shown(driver) == list(causes)

    # The first group: its figure is that of the cases that its link shows, kept in the address.
    text = driver.find_element("css selector", ".work li").text
    count = int(re.search(r": (\d+)( of \d+)? cases", text)[1])  # type: ignore[index]
    driver.find_element("css selector", ".work a").click()
    group, address = shown(driver), driver.current_url
    assert len(group) == count and len({causes[id] for id in group}) == 1
    assert f"cause={causes[group[0]]}" in address
    driver.get("about:blank")
    driver.get(address)
    assert shown(driver) == group

    press(driver, "j")
    press(driver, "j")
    press(driver, "k")
    script = "return [...document.querySelectorAll('.case[open] .id')].map(e => e.textContent)"
    assert driver.execute_script(script) == group[:1]
    press(driver, "/")
    assert driver.execute_script("return document.activeElement.id") == "q"

    driver.find_element("css selector", "button[type=reset]").click()
    recall = {id: case["scores"]["recall@5"]["value"] for id, case in found.items()}
    for hash, wanted in {
        "cause=declined": [id for id, cause in causes.items() if cause == "declined"],
        "q=recall@5<0.5": [id for id, one in recall.items() if one is not None and one < 0.5],
        "q=" + found[group[0]]["retrieved_ids"][0]: None,
        "q=paid annual leave per calendar year": None,  # words of a chunk
        "tag=number&tag=paraphrase": [
            id for id, case in found.items() if {"number", "paraphrase"} <= {*case["tags"]}
        ],
        "sort=recall@5": sorted(found, key=lambda id: (recall[id] is None, recall[id] or 0)),
    }.items():
        driver.get("about:blank")
        driver.get(pages["run"].as_uri() + "#" + hash)
        hits = shown(driver)
        assert hits == wanted if wanted is not None else 0 < len(hits) < len(found), hash
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script("return document.querySelectorAll('.case[open]').length") == 12


def test_a_link_opens_its_case_and_shows_the_marked_chunks(
    driver: Any, pages: dict[str, Path]
) -> None:
    opened(driver, pages["run"], "#case=pto-days-porto")
    case = "const c = document.getElementById('case=pto-days-porto'); "
    assert driver.execute_script(f"{case}return c.closest('details').open") is True
    marked = "return [...c.querySelectorAll('tr.gold details mark')].map(m => m.textContent)"
    script = case + marked
    marks: list[str] = []
    for _ in range(50):  # an opened case is filled by an event
        marks = driver.execute_script(script)
        if marks:
            break
    assert "You get 27 days of paid annual leave per calendar year" in marks


def test_without_javascript_every_fact_is_there(driver: Any, pages: dict[str, Path]) -> None:
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(driver, pages["run"])
        root = driver.execute_cdp_cmd("DOM.getDocument", {})["root"]["nodeId"]
        dom = driver.execute_cdp_cmd("DOM.getOuterHTML", {"nodeId": root})["outerHTML"]
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    text = " ".join(html.unescape(re.sub("<[^>]*>", "", dom)).split())
    for case in cases_of(pages["run"].parent):
        detail = case["attribution"]["detail"]
        for reported in (case["id"], case["query"], case["reference"], detail):
            assert reported is None or " ".join(reported.split()) in text
        assert case["response"] is None or " ".join(case["response"].split()) in text
        assert all(id in text for id in case["retrieved_ids"])
    assert '<html lang="en">' in dom  # without the class that the script sets


def drop_of(printed: str) -> Any:
    checks = json.loads(printed)["checks"]
    (drop,) = [
        each for each in checks if each["kind"] == "drop" and each["subject"] == "answer_correct"
    ]
    return drop


def press(driver: Any, keys: str) -> None:
    driver.find_element("css selector", "body").send_keys(keys)


def test_a_gate_that_cannot_tell_asks_people_and_is_settled_by_their_page(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("Bach", "Haydn", "Brahms", "Verdi", "Liszt")
    for run in ("base", "run"):
        said = [f"{names[(at + (run == 'run' and at % 8 == 0)) % 5]}, {at}." for at in range(48)]
        lines(
            f"{run}.jsonl",
            (
                {
                    "id": f"q{at}",
                    "question": f"Who wrote {at}?",
                    "reference": names[at % 5],
                    "response": f"{run} says {said[at]}",
                }
                for at in range(48)
            ),
        )
        assert ragbench("eval", f"{run}.jsonl", "--out", run, "-q", "-m", "answer_correct") == 0
    gate = ("gate", "run", "-b", "base", "--max-drop", "answer_correct=0.12", "--strict", "--json")
    capsys.readouterr()
    assert ragbench(*gate) == 3
    drop = drop_of(capsys.readouterr().out)
    command = shlex.split(drop["plan"]["command"])
    assert ragbench(*command[1:]) == 0

    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    opened(driver, tmp_path / command[command.index("--page") + 1])
    count = driver.execute_script("return document.querySelectorAll('.answer').length")
    assert count == 2 * int(command[command.index("-n") + 1])
    driver.find_element("id", "by").send_keys("ann")
    state = "return document.getElementById('state').textContent"
    press(driver, "n")
    press(driver, "u")
    assert driver.execute_script(state) == f"0 of {count} labelled"
    for at in range(count):
        # People call every second answer of the run wrong, whatever the words say.
        text = driver.find_element("css selector", ".answer[aria-current=true] p").text
        number = int(text.rstrip(".").rpartition(" ")[2])
        press(driver, "n" if text.startswith("run") and number % 2 else "y")
        if at == 3:  # what was said outlives the page
            driver.refresh()
            driver.find_element("id", "by").send_keys("ann")
            driver.find_element("tag name", "h1").click()
            assert driver.execute_script(state).startswith("4 of ")
    assert driver.execute_script(state).startswith(f"{count} of {count} labelled. Save them (d)")
    press(driver, "d")
    saved = tmp_path / "labels.jsonl"
    for _ in range(200):
        if saved.exists() and saved.read_bytes().count(b"\n") == count:
            break
        driver.execute_script("return 0")
    assert requested(driver) == []
    assert ragbench(*gate, "--labels", saved) == 1
    drop = drop_of(capsys.readouterr().out)
    assert drop["corrected"]["labels"] == count // 2 and drop["corrected"]["chosen"] == 0
    assert drop["corrected"]["corrected"] < -0.3
