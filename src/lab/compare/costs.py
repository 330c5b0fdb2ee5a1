"""What one run cost, as a whole and for its training alone, and what that makes for a token.

Only a rented machine has a price; of a run without one every figure here is None.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lab.compare.facts import RunFacts

    Part = Literal["all", "train"]
    """The whole run, or its training phase without what is around it: booting, installing, collecting, idling."""

MILLION = 1e6
HOUR = 3600.0


def dollars(run: RunFacts, part: Part) -> float | None:
    """What the part cost."""
    found = run.cost.get("dollars") if part == "all" else (run.cost.get("phases") or {}).get(part)
    return float(found) if isinstance(found, (int, float)) else None


def per_million_tokens(run: RunFacts, part: Part) -> float | None:
    """Dollars for a million target tokens: as recorded, or from what is known of a run that has no summary."""
    recorded = (run.cost.get("dollars_per_million_tokens") or {}).get(part)
    if isinstance(recorded, (int, float)):
        return float(recorded)
    paid, tokens = dollars(run, part), run.steps.tokens[-1] if len(run.steps) else 0.0
    return paid / tokens * MILLION if paid is not None and tokens > 0 else None


def tokens_per_dollar(run: RunFacts, part: Part) -> float | None:
    """Target tokens for a dollar."""
    each = per_million_tokens(run, part)
    return MILLION / each if each else None


def step_dollars(run: RunFacts) -> list[float] | None:
    """What all steps up to and including each one cost, by the measured clock; None where no one price held."""
    rate = run.cost.get("dollars_per_hour")
    if not rate or run.cost.get("other_machines_dollars"):
        return None
    seconds = (0.0 if math.isnan(one) else one for one in run.steps.column("seconds"))
    return [rate / HOUR * total for total in accumulate(seconds)]
