"""Why a case of two runs cannot be compared: `ragbench.stats.paired` counts each case once."""

from __future__ import annotations

ONLY_IN_BASELINE = "only in the baseline"
ONLY_IN_RUN = "only in this run"
NOT_MEASURED_IN_BASELINE = "not measured in the baseline"
NOT_MEASURED_IN_RUN = "not measured in this run"
NOT_MEASURED_IN_EITHER = "not measured in either"
LEFT_OUT = (
    ONLY_IN_BASELINE,
    ONLY_IN_RUN,
    NOT_MEASURED_IN_BASELINE,
    NOT_MEASURED_IN_RUN,
    NOT_MEASURED_IN_EITHER,
)
"""In the order in which they are shown."""
