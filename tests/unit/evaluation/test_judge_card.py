from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from ragbench.errors import ConfigError, LLMReplyError
from ragbench.evaluation.judge_card import judge_card
from ragbench.evaluation.judging import Judging
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.limits import CallLimits
from ragbench.llm.models import open_models
from ragbench.llm.session import LLMSession
from ragbench.llm.settings import LLMSettings
from ragbench.records.judge_cards import JudgeCard
from ragbench.records.labels import LabelledClaim
from ragbench.scoring.registry import parse_metric
from ragbench.scoring.support_judge import is_quoted
from tests.llm_server import FaultServer, Payload
from tests.unit.llm.builders import PRICE, InMemory
from tests.unit.llm.test_http import FastClock

VERDICTS = {"s": "supported", "p": "partially_supported", "n": "not_supported"}


def claim(number: int, level: int, text: str, *evidence: str) -> LabelledClaim:
    return LabelledClaim(
        id=str(number), claim=text, evidence=evidence or ("Bees fly.",), level=level
    )


def said(payload: Payload) -> str:
    """The verdicts stand in the claim: one letter a repetition, one more for the other order."""
    told = json.loads(payload["messages"][-1]["content"])
    letters = told["claim"]
    if told["evidence"][0] == "Cows eat.":
        letter = letters[-1]
    else:
        seen[letters] = seen.get(letters, -1) + 1
        letter = letters[min(seen[letters], 1)]
    quotes = ["bees  FLY"] if letter == "s" else ["Bees swim."] if letter == "p" else []
    return json.dumps({"reason": "r", "quotes": quotes, "verdict": VERDICTS[letter]})


seen: dict[str, int] = {}


def card(
    tmp_path: Path,
    claims: list[LabelledClaim],
    metric: str = "support",
    server: FaultServer | None = None,
) -> JudgeCard:
    seen.clear()
    settings = LLMSettings(
        endpoint=Endpoint(base_url="http://judge.test/v1", model="m", price=PRICE),
        limits=CallLimits(concurrency=1),
        cache=str(tmp_path / "cache.sqlite"),
        cache_bytes=10**9,
        settings=(),
    )
    transport = InMemory(server or FaultServer(say=said), latency=0.0)
    with LLMSession(
        lambda: open_models(settings, transport=transport, clock=FastClock())
    ) as session:
        judging = Judging(session=session, chat=settings, repeats=2, preflight=False)
        return judge_card(claims, parse_metric(metric), judging)


def test_a_card_by_hand(tmp_path: Path) -> None:
    both = ("Bees fly.", "Cows eat.")
    found = card(
        tmp_path,
        [
            claim(1, 2, "ss"),  # right, the same twice
            claim(2, 0, "nn"),  # right
            claim(3, 2, "pn"),  # wrong, and changes its mind
            claim(4, 1, "pps", *both),  # right, but not in the other order
            claim(5, 0, "nnn", *both),
        ],
    )
    assert (found.claims, found.judged, found.reasons) == (5, 5, ())
    assert found.table.counts == ((2, 0, 0), (0, 1, 0), (0, 1, 1))
    assert found.agreement.value == pytest.approx(4 / 5)
    assert found.base_rate == pytest.approx(2 / 5)
    # By chance: (2*2 + 1*2 + 2*1) / 25
    assert found.kappa.value == pytest.approx((0.8 - 8 / 25) / (1 - 8 / 25))
    assert found.consistency.value == pytest.approx(4 / 5) and found.consistency.count == 5
    assert (found.order_changes.value, found.order_changes.count) == (0.5, 2)
    # "bees  FLY" twice stands in the evidence, "Bees swim." three times does not.
    assert (found.fabricated_quotes.value, found.fabricated_quotes.count) == (0.6, 5)
    assert (found.unquoted.value, found.unquoted.count) == (0.0, 5)
    assert found.cost is not None and found.cost > Decimal(0)
    assert found.currency == "USD"


def test_what_has_no_verdict_is_counted_and_not_compared(tmp_path: Path) -> None:
    server = FaultServer(say=lambda _: "no JSON at all")
    found = card(tmp_path, [claim(1, 2, "ss")], server=server)
    assert (found.judged, found.reasons) == (0, (("LLMReplyError", 1),))
    assert found.kappa.value is None and found.agreement.value is None and found.cost is None
    assert issubclass(LLMReplyError, Exception)


def test_only_a_judge_of_answers_and_contexts_has_a_card(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="such as support or ragas:faithfulness"):
        card(tmp_path, [claim(1, 2, "ss")], metric="exact_match")


@pytest.mark.parametrize(
    ("quote", "there"),
    [
        ("Bees fly.", True),
        ('"bees\nfly"', True),
        ("bees ... sing", True),
        ("sing ... bees", False),
        ("the queen’s hive", True),
        ("ﬁne weather", True),  # a ligature
        ("Bees swim", False),
        ("", False),
        ("...", False),
    ],
)
def test_quotes(quote: str, there: bool) -> None:
    assert (
        is_quoted(quote, ["Cows eat.", "Bees  fly and sing in the queen's hive; fine weather"])
        is there
    )
