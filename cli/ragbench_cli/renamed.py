"""Options that had another name before 0.1.0: the old spelling works for one more release."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS = {"tune": "tune-search"}
"""New names of commands by the old ones, which work for one more release."""
_MAP = {"--map": "--field"}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "eval": {
        "--answers": "--outputs",
        "--answers-format": "--outputs-format",
        "--canaries": "--judge-controls",
        "--repeats": "--judge-repeats",
    },
    "validate": {
        **_MAP,
        "--against": "--baseline",
        "--scores": "--score-kind",
        "--self-test": "--stress-test",
        "--strict": "--fail-on-malformed",
    },
    "calibrate": {**_MAP, "--error": "--max-false-yes", "--scores": "--score-kind"},
    "report": {"--against": "--baseline"},
    "gate": {
        "--settle": "--rerun-inconclusive",
        "--ask": "--rerun-options",
        "--max-asked": "--max-reruns",
    },
    "compare": {"--main": "--pass-metrics"},
    "ablate": {"--scores": "--score-cache"},
    "search": _MAP,
    "why": _MAP,
    "tune-search": _MAP,
}
"""New names of options by the old ones, by command."""
