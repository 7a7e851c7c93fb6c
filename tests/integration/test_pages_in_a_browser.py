"""Pages in a real Chromium: nothing runs that a text says, nothing is fetched, all can be used."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Generator
from html.parser import HTMLParser
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
    """The page of every kind, from the bundled dataset."""
    folder = tmp_path_factory.mktemp("pages")
    run, other = folder / "run", folder / "other"
    limited = ("--limit", LIMIT, "-q")
    assert ragbench("eval", PELLORIN, "--out", run, *limited, "--validate", "lexical") == 0
    assert ragbench("eval", PELLORIN, "--out", other, *limited, "--top-k", 1) == 0
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


def was_hit(driver: Any) -> bool:
    script = "return Boolean(document.documentElement.dataset.hit || window.hit)"
    return bool(driver.execute_script(script))


@pytest.mark.parametrize(("name", "least"), HOSTILE.items())
def test_no_payload_runs_and_nothing_is_asked_for(
    driver: Any, hostile: dict[str, Path], name: str, least: int
) -> None:
    opened(driver, hostile[name])
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    shown = "return document.querySelectorAll('.case, .flip, .task').length"
    assert driver.execute_script(shown) >= least
    assert not was_hit(driver)
    assert requested(driver) == []
    assert [entry["message"] for entry in driver.get_log("browser")] == []


@pytest.mark.parametrize("name", HOSTILE)
def test_no_payload_runs_where_the_policy_is_taken_away(
    driver: Any, hostile: dict[str, Path], name: str
) -> None:
    bare = hostile[name].with_name(f"bare-{name}.html")
    text = hostile[name].read_text("utf-8")
    bare.write_text(
        re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", text), "utf-8"
    )
    opened(driver, bare)
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert not was_hit(driver)
    assert requested(driver) == []
    own = "return document.querySelectorAll('script, iframe, img, link, base, form, object').length"
    # Its own script, and the filter's form.
    assert driver.execute_script(own) == (2 if name in ("run", "against", "label") else 1)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_quiet_and_accessible(driver: Any, pages: dict[str, Path], name: str) -> None:
    opened(driver, pages[name])
    driver.set_script_timeout(120)
    axe = files("axe_core_python") / "axe.min.js"
    driver.execute_script(axe.read_text("utf-8"))
    assert requested(driver) == []
    assert [entry["message"] for entry in driver.get_log("browser")] == []
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
    assert [entry["message"] for entry in driver.get_log("browser")] == []
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


def test_the_waterfall_filters_and_words_find_cases(driver: Any, pages: dict[str, Path]) -> None:
    causes = {case["id"]: case["attribution"]["cause"] for case in cases_of(pages["run"].parent)}
    opened(driver, pages["run"])
    assert shown(driver) == list(causes)

    driver.find_element("css selector", "a[data-cause=declined]").click()
    assert shown(driver) == [id for id, cause in causes.items() if cause == "declined"]

    driver.find_element("css selector", "button[type=reset]").click()
    script = "q.value = arguments[0]; window.ragbenchFilter()"
    driver.execute_script(script, "vacation porto")
    assert "pto-days-porto" in shown(driver)
    assert len(shown(driver)) < 6


def test_the_worst_cases_come_first(driver: Any, pages: dict[str, Path]) -> None:
    opened(driver, pages["run"])
    scores = {
        case["id"]: case["scores"]["recall@5"]["value"] for case in cases_of(pages["run"].parent)
    }
    script = "sort.value = arguments[0]; window.ragbenchFilter()"
    driver.execute_script(script, "recall@5")
    values = [scores[id] for id in shown(driver)]
    measured = [value for value in values if value is not None]
    assert measured == sorted(measured)
    assert values[: len(measured)] == measured


def test_a_link_opens_its_case_and_shows_the_marked_chunks(
    driver: Any, pages: dict[str, Path]
) -> None:
    opened(driver, pages["run"], "#case=pto-days-porto")
    script = "return document.getElementById('case=pto-days-porto').closest('details').open"
    assert driver.execute_script(script) is True
    script = (
        "const c = document.getElementById('case=pto-days-porto');"
        "return [...c.querySelectorAll('tr.gold details mark')].map(m => m.textContent)"
    )
    marks: list[str] = []
    for _ in range(50):  # an opened case is filled by an event
        marks = driver.execute_script(script)
        if marks:
            break
    assert "You get 27 days of paid annual leave per calendar year" in marks


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_without_javascript_every_fact_is_there(driver: Any, pages: dict[str, Path]) -> None:
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(driver, pages["run"])
        root = driver.execute_cdp_cmd("DOM.getDocument", {})["root"]["nodeId"]
        dom = driver.execute_cdp_cmd("DOM.getOuterHTML", {"nodeId": root})["outerHTML"]
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    parser = _Text()
    parser.feed(dom)
    text = " ".join("".join(parser.text).split())
    for case in cases_of(pages["run"].parent):
        detail = case["attribution"]["detail"]
        for reported in (case["id"], case["query"], case["reference"], detail):
            assert reported is None or " ".join(reported.split()) in text
        assert case["response"] is None or " ".join(case["response"].split()) in text
        assert all(id in text for id in case["retrieved_ids"])
    assert '<html lang="en">' in dom  # without the class that the script sets


def press(driver: Any, keys: str) -> None:
    driver.find_element("css selector", "body").send_keys(keys)


def test_a_gate_that_cannot_tell_asks_people_and_is_settled_by_their_page(
    driver: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("Bach", "Haydn", "Brahms", "Verdi", "Liszt")
    for run in ("base", "run"):
        rows = [
            {
                "id": f"q{at}",
                "question": f"Who wrote {at}?",
                "reference": names[at % 5],
                "response": f"{run} says {names[(at + (run == 'run' and at % 8 == 0)) % 5]}, {at}.",
            }
            for at in range(48)
        ]
        lines(f"{run}.jsonl", rows)
        assert ragbench("eval", f"{run}.jsonl", "--out", run, "-q", "-m", "answer_correct") == 0
    gate = ("gate", "run", "-b", "base", "--max-drop", "answer_correct=0.12", "--strict", "--json")
    capsys.readouterr()
    assert ragbench(*gate) == 3
    (drop,) = [
        one for one in json.loads(capsys.readouterr().out)["checks"] if one["kind"] == "drop"
    ]
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
    (drop,) = [
        one for one in json.loads(capsys.readouterr().out)["checks"] if one["kind"] == "drop"
    ]
    assert drop["corrected"]["labels"] == count // 2 and drop["corrected"]["chosen"] == 0
    assert drop["corrected"]["corrected"] < -0.3
