"""What a rental has cost, may cost and did cost for what: derived from its journal and the stages' own records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.rental.facts import Facts

HOUR = 3600.0
COLLECT_SECONDS = 1800.0
"""What is allowed for bringing results home, in what a person is told and in the ceiling."""
BOOT = "boot"
INSTALL = "install"
PREPARE = "prepare"
TRAIN = "train"
COLLECT = "collect"
IDLE = "idle"
PHASES = (BOOT, INSTALL, PREPARE, TRAIN, COLLECT, IDLE)
STAGE_PHASES = {"install": INSTALL, "preflight": PREPARE, "prepare": PREPARE, "train": TRAIN}


def most(dollars_per_hour: float, seconds: float, ready_seconds: float) -> float:
    """The most that a job can cost when nothing is capped: booting, the job's limit, collecting."""
    return dollars_per_hour * (ready_seconds + seconds + COLLECT_SECONDS) / HOUR


def billed_seconds(facts: Facts, now: float) -> float:
    """Seconds at the full rate of the present machine so far."""
    running = now - facts.billing_since if facts.billing_since else 0.0
    return facts.billed_seconds + max(0.0, running)


def spent(facts: Facts, now: float) -> float:
    """Dollars for every machine of this rental so far, stopped disks aside."""
    return facts.spent_before + (facts.dollars_per_hour or 0.0) * billed_seconds(facts, now) / HOUR


def seconds_left(facts: Facts, now: float) -> float:
    """For how long the ceiling still pays for the machine."""
    rate = facts.dollars_per_hour or 0.0
    return (facts.max_dollars - spent(facts, now)) / rate * HOUR if rate else HOUR


def phases(facts: Facts, stages: Iterable[Mapping[str, Any]], now: float) -> dict[str, float]:
    """Seconds of each phase; they add up to the time at the full rate."""
    seconds = dict.fromkeys(PHASES, 0.0)
    total = billed_seconds(facts, now)
    if facts.ready and facts.created:
        seconds[BOOT] = max(0.0, facts.ready - facts.created)
    for name, took in _stage_seconds(stages, now):
        phase = STAGE_PHASES.get(name, name)
        seconds[phase] = seconds.get(phase, 0.0) + took
    if facts.job_finished:
        seconds[COLLECT] = max(0.0, (facts.collected or now) - facts.job_finished)
    seconds[IDLE] = max(0.0, total - sum(seconds.values()))
    return seconds


def _stage_seconds(stages: Iterable[Mapping[str, Any]], now: float) -> Iterator[tuple[str, float]]:
    """How long each stage took; the one that still runs has taken as long as since its start."""
    running: tuple[str, float] | None = None
    for line in stages:
        name = str(line.get("stage"))
        if line.get("event") == "started":
            running = (name, float(line.get("unix") or now))
        elif line.get("event") in ("ended", "exited"):
            running = None
        if line.get("event") == "ended":
            yield name, float(line.get("seconds") or 0.0)
    if running is not None:
        yield running[0], max(0.0, now - running[1])


def record(facts: Facts, stages: Iterable[Mapping[str, Any]], targets: int | None, now: float) -> dict[str, Any]:
    """What goes into cost.json: the total, each phase, and the price of a million target tokens."""
    rate = facts.dollars_per_hour or 0.0
    by_phase = {name: seconds * rate / HOUR for name, seconds in phases(facts, stages, now).items()}
    total = spent(facts, now)
    per_million = {"train": by_phase[TRAIN], "all": total} if targets else {}
    return {
        "schema": 1,
        "dollars": round(total, 4),
        "dollars_per_hour": facts.dollars_per_hour,
        "seconds": round(billed_seconds(facts, now), 1),
        "other_machines_dollars": round(facts.spent_before, 4),
        "phases": {name: round(dollars, 4) for name, dollars in by_phase.items()},
        "dollars_per_million_tokens": {
            name: round(dollars / targets * 1e6, 6) for name, dollars in per_million.items() if targets
        },
        "kind": "derived",
    }
