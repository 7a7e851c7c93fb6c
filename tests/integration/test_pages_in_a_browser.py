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
    with browser() as chromium:
        yield chromium


def ragbench(*arguments: object) -> int:
    from ragbench_cli.main import main

    return main([str(argument) for argument in arguments])


def pages_of_two_runs(folder: Path, good_run: Path, worse_run: Path) -> dict[str, Path]:
    """The page of the good run, and the pages that put the worse run beside it."""
    pages = {
        "run": good_run / "report.html",
        "against": folder / "against.html",
        "compare": folder / "compare.html",
        "gate": folder / "gate.html",
        "label": folder / "label.html",
    }
    ragbench("report", worse_run, "--against", good_run, "--html", pages["against"])
    ragbench("compare", good_run, worse_run, "--html", pages["compare"])
    limit = ("--baseline", good_run, "--max-drop", "recall@5=0.01")
    ragbench("gate", worse_run, *limit, "--html", pages["gate"])
    pairs = ("--against", good_run, "-m", "token_f1", "-n", 100, "--show-judge")
    assert ragbench("label", worse_run, *pairs, "--page", pages["label"]) == 0
    return pages


HOSTILE = {"run": 100, "against": 100, "compare": 30, "gate": 30, "label": 20}
"""Pages of hostile runs, and the fewest cases that each shows."""
PAGES = ("run", "against", "compare", "gate", "label", "ablate", "validate")
VARIANTS = """\
variants:
- name: all
  operators: []
- name: two
  operators:
  - {action: filter, type: top_k, k: 2}
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of runs in which every text is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    good_run = folder / "one"
    worse_run = folder / "other"
    hostile_run(good_run)
    hostile_run(worse_run, Changed())
    return pages_of_two_runs(folder, good_run, worse_run)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of two runs of the baseline over the first cases of the example dataset."""
    folder = tmp_path_factory.mktemp("pages")
    good_run = folder / "run"
    worse_run = folder / "other"
    baseline = ("eval", PELLORIN, "--rag", "baseline", "--limit", LIMIT, "-q")
    assert ragbench(*baseline, "--out", good_run, "--validate", "lexical") == 0
    assert ragbench(*baseline, "--out", worse_run, "--top-k", 1) == 0
    pages = pages_of_two_runs(folder, good_run, worse_run)

    pages["ablate"] = folder / "ablate.html"
    variants_file = folder / "variants.yaml"
    variants_file.write_text(VARIANTS, "utf-8")
    variants = ("--variants", variants_file, "-m", "recall@5")
    ragbench("ablate", good_run, *variants, "--html", pages["ablate"])

    pages["validate"] = folder / "validate.html"
    lexical = ("--validator", "lexical", "-q")
    earlier = folder / "earlier.jsonl"
    ragbench("validate", worse_run, *lexical, "-o", earlier)
    compared = ("--against", earlier, "--html", pages["validate"])
    ragbench("validate", good_run, *lexical, *compared)

    ragbench("report", good_run, "--html-folder", folder / "folder")
    pages["folder"] = folder / "folder" / "index.html"
    return pages


def open_page(driver: Any, page: Path, fragment: str = "") -> None:
    """Opens a page with empty logs, so that they hold its own events alone."""
    driver.get("about:blank")
    driver.get_log("performance")
    driver.get_log("browser")
    driver.get(page.as_uri() + fragment)


def requested_urls(driver: Any) -> list[str]:
    """Everything that the page asked for, but itself."""
    urls = []
    for entry in driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] != "Network.requestWillBeSent":
            continue
        url = event["params"]["request"]["url"]
        is_own_file = re.search(r"\.(html|css|js)(#.*)?$", url) and "http" not in url
        if not is_own_file:
            urls.append(url)
    return urls


def console_messages(driver: Any) -> list[str]:
    return [entry["message"] for entry in driver.get_log("browser")]


def count_of(driver: Any, selector: str) -> int:
    """How many elements of the page a CSS selector finds."""
    return int(driver.execute_script(f"return document.querySelectorAll('{selector}').length"))


def shown_ids(driver: Any) -> list[str]:
    """The cases that the page lists now."""
    script = "return [...document.querySelectorAll('#list .id')].map(e => e.textContent)"
    return list(driver.execute_script(script))


def press(driver: Any, keys: str) -> None:
    driver.find_element("css selector", "body").send_keys(keys)


def page_without_policy(page: Path) -> Path:
    """A copy in which nothing but the escaping of its texts protects the reader."""
    text = page.read_text("utf-8")
    bare_text = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", text)
    assert bare_text != text
    bare_page = page.with_name(f"bare-{page.name}")
    bare_page.write_text(bare_text, "utf-8")
    return bare_page


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "without its policy"])
@pytest.mark.parametrize(("name", "least"), HOSTILE.items())
def test_no_payload_runs_and_nothing_is_asked_for(
    driver: Any, hostile: dict[str, Path], name: str, least: int, policy: bool
) -> None:
    page = hostile[name]
    if not policy:
        page = page_without_policy(page)

    open_page(driver, page)
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")

    assert count_of(driver, ".case, .flip, .task") >= least
    assert not driver.execute_script("return document.documentElement.dataset.hit || window.hit")
    assert requested_urls(driver) == []
    # Its own script, and the form of its filter where it has one.
    own_elements = 2 if name in ("run", "against", "label") else 1
    assert count_of(driver, "script, iframe, img, link, base, form, object") == own_elements
    if policy:
        assert console_messages(driver) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_quiet_and_accessible(driver: Any, pages: dict[str, Path], name: str) -> None:
    open_page(driver, pages[name])
    driver.set_script_timeout(120)
    axe = files("axe_core_python") / "axe.min.js"
    driver.execute_script(axe.read_text("utf-8"))

    assert requested_urls(driver) == []
    assert console_messages(driver) == []
    if name in ("run", "against"):
        driver.execute_script("document.querySelector('#list .case').open = true")
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        violations = []
        for violation in driver.execute_async_script(AXE)["violations"]:
            html_of_first = violation["nodes"][0]["html"]
            violations.append((violation["id"], html_of_first[:200]))
        assert violations == [], scheme


def test_a_page_with_its_script_and_style_as_files_works(
    driver: Any, pages: dict[str, Path]
) -> None:
    page = pages["folder"]

    open_page(driver, page)

    assert console_messages(driver) == []
    assert len(shown_ids(driver)) == int(LIMIT)
    names = [path.name for path in page.parent.iterdir()]
    assert sorted(names) == ["index.html", "report.css", "report.js"]


@pytest.mark.parametrize("width", [360, 2000])
def test_no_page_is_wider_than_its_window(driver: Any, pages: dict[str, Path], width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for name in PAGES:
            open_page(driver, pages[name])
            content_width = driver.execute_script("return document.documentElement.scrollWidth")
            assert content_width <= width, name
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_is_a_work_list(driver: Any, pages: dict[str, Path]) -> None:
    cases = {}
    causes = {}
    recalls = {}
    for case in cases_of(pages["run"].parent):
        id = case["id"]
        cases[id] = case
        causes[id] = case["attribution"]["cause"]
        recalls[id] = case["scores"]["recall@5"]["value"]
    open_page(driver, pages["run"])
    assert shown_ids(driver) == list(cases)

    # The first group: its figure is that of the cases that its link shows, kept in the address.
    text = driver.find_element("css selector", ".work li").text
    count = int(re.search(r": (\d+)( of \d+)? cases", text)[1])  # type: ignore[index]
    driver.find_element("css selector", ".work a").click()
    group = shown_ids(driver)
    address = driver.current_url
    assert len(group) == count
    (cause,) = {causes[id] for id in group}
    assert f"cause={cause}" in address
    driver.get("about:blank")
    driver.get(address)
    assert shown_ids(driver) == group

    # Keys: the next case, the next, the one before; then the search.
    press(driver, "j")
    press(driver, "j")
    press(driver, "k")
    script = "return [...document.querySelectorAll('.case[open] .id')].map(e => e.textContent)"
    assert driver.execute_script(script) == group[:1]
    press(driver, "/")
    assert driver.execute_script("return document.activeElement.id") == "q"

    # Filters, searches and orders, each from its address.
    driver.find_element("css selector", "button[type=reset]").click()

    def listed(fragment: str) -> list[str]:
        """The cases that the page lists when it is opened with this fragment."""
        driver.get("about:blank")
        driver.get(f"{pages['run'].as_uri()}#{fragment}")
        return shown_ids(driver)

    declined = [id for id in cases if causes[id] == "declined"]
    assert listed("cause=declined") == declined
    low = [id for id, recall in recalls.items() if recall is not None and recall < 0.5]
    assert listed("q=recall@5<0.5") == low
    both_tags = [id for id in cases if {"number", "paraphrase"} <= set(cases[id]["tags"])]
    assert listed("tag=number&tag=paraphrase") == both_tags
    chunk_id = cases[group[0]]["retrieved_ids"][0]
    assert 0 < len(listed(f"q={chunk_id}")) < len(cases)
    words_of_a_chunk = "paid annual leave per calendar year"
    assert 0 < len(listed(f"q={words_of_a_chunk}")) < len(cases)
    unmeasured_last = sorted(cases, key=lambda id: (recalls[id] is None, recalls[id] or 0))
    assert listed("sort=recall@5") == unmeasured_last

    # On paper, nothing can be opened: of the cases that are listed, all are printed open.
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert count_of(driver, ".case[open]") == 12


def test_a_link_opens_its_case_and_shows_the_marked_chunks(
    driver: Any, pages: dict[str, Path]
) -> None:
    open_page(driver, pages["run"], "#case=pto-days-porto")

    case = "const c = document.getElementById('case=pto-days-porto'); "
    assert driver.execute_script(f"{case}return c.closest('details').open") is True
    marked = "return [...c.querySelectorAll('tr.gold details mark')].map(m => m.textContent)"
    marks: list[str] = []
    for _ in range(50):  # an opened case is filled by an event
        marks = driver.execute_script(case + marked)
        if marks:
            break
    assert "You get 27 days of paid annual leave per calendar year" in marks


def test_without_javascript_every_fact_is_there(driver: Any, pages: dict[str, Path]) -> None:
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page(driver, pages["run"])
        root = driver.execute_cdp_cmd("DOM.getDocument", {})["root"]["nodeId"]
        dom = driver.execute_cdp_cmd("DOM.getOuterHTML", {"nodeId": root})["outerHTML"]
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

    text = in_one_line(html.unescape(re.sub("<[^>]*>", "", dom)))
    for case in cases_of(pages["run"].parent):
        facts = [
            case["id"],
            case["query"],
            case["reference"],
            case["response"],
            case["attribution"]["detail"],
        ]
        for fact in facts:
            assert fact is None or in_one_line(fact) in text
        for id in case["retrieved_ids"]:
            assert id in text
    assert '<html lang="en">' in dom  # without the class that the script sets


def in_one_line(text: str) -> str:
    return " ".join(text.split())


# --- a page of labels settles a gate

NAMES = ("Bach", "Haydn", "Brahms", "Verdi", "Liszt")


def answers_about_composers(run: str) -> list[dict[str, str]]:
    """48 cases of a run: all right in base; in run, each eighth names the next composer."""
    rows = []
    for number in range(48):
        is_wrong = run == "run" and number % 8 == 0
        name = NAMES[(number + is_wrong) % 5]
        row = {
            "id": f"q{number}",
            "question": f"Who wrote {number}?",
            "reference": NAMES[number % 5],
            "response": f"{run} says {name}, {number}.",
        }
        rows.append(row)
    return rows


def drop_of(printed: str) -> Any:
    """The check of the loss of answer_correct in the verdict that a gate printed."""
    (drop,) = [
        check
        for check in json.loads(printed)["checks"]
        if check["kind"] == "drop" and check["subject"] == "answer_correct"
    ]
    return drop


def test_a_gate_that_cannot_tell_asks_people_and_is_settled_by_their_page(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for run in ("base", "run"):
        dataset = lines(f"{run}.jsonl", answers_about_composers(run))
        assert ragbench("eval", dataset, "--out", run, "-q", "-m", "answer_correct") == 0
    gate = ("gate", "run", "-b", "base", "--max-drop", "answer_correct=0.12", "--strict", "--json")
    capsys.readouterr()

    # It cannot tell, and names the command that writes the page.
    assert ragbench(*gate) == 3
    drop = drop_of(capsys.readouterr().out)
    command = shlex.split(drop["plan"]["command"])
    assert ragbench(*command[1:]) == 0
    page = tmp_path / command[command.index("--page") + 1]
    pairs = int(command[command.index("-n") + 1])

    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    open_page(driver, page)
    count = count_of(driver, ".answer")
    assert count == 2 * pairs
    driver.find_element("id", "by").send_keys("ann")
    state = "return document.getElementById('state').textContent"
    press(driver, "n")
    press(driver, "u")
    assert driver.execute_script(state) == f"0 of {count} labelled"
    for labelled in range(1, count + 1):
        # People call every second answer of the run wrong, whatever the words say.
        text = driver.find_element("css selector", ".answer[aria-current=true] p").text
        number = int(text.rstrip(".").rpartition(" ")[2])
        is_wrong = text.startswith("run") and number % 2 == 1
        press(driver, "n" if is_wrong else "y")
        if labelled == 4:  # labels outlive the page
            driver.refresh()
            driver.find_element("id", "by").send_keys("ann")
            driver.find_element("tag name", "h1").click()
            assert driver.execute_script(state).startswith("4 of ")
    assert driver.execute_script(state).startswith(f"{count} of {count} labelled. Save them (d)")
    press(driver, "d")
    labels = tmp_path / "labels.jsonl"
    for _ in range(200):
        if labels.exists() and labels.read_bytes().count(b"\n") == count:
            break
        driver.execute_script("return 0")
    assert requested_urls(driver) == []

    # With the labels of the page, it fails.
    assert ragbench(*gate, "--labels", labels) == 1
    corrected = drop_of(capsys.readouterr().out)["corrected"]
    assert corrected["labels"] == count // 2
    assert corrected["chosen"] == 0
    assert corrected["corrected"] < -0.3
