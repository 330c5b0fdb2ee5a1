"""The checks that decide whether two runs may be compared for loss, speed and memory, each named with both values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.compare import differences, surroundings
from lab.compare.absences import absences
from lab.compare.formats import counted, listed
from lab.compare.verdicts import ALL_LIMITS, ALL_NO, LIMITS, NO, Check, among
from lab.contracts.loss import CROSS_ENTROPY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.compare.differences import Difference
    from lab.compare.facts import RunFacts

BRINGS_WEIGHTS = ("seed", "loop", "model", "data.tokenizer", "data.context")
BRINGS_TOKENS = ("seed", "loop", "data", "batch")
BRINGS_SCOPE = ("loop", "train.steps", "train.warmup_steps")
"""Declared changes that cannot be made without changing the weights, the tokens or the measured steps too."""


def checks(a: RunFacts, b: RunFacts) -> tuple[Check, ...]:
    """Every check, in the order in which they are shown; a field that a run lacks counts as different."""
    found = differences.in_experiments(a, b)
    declared = tuple(one.key for one in found if one.declared)
    every = (
        _declared_change(found),
        _initial_weights(a, b, declared),
        _tokens_fed(a, b, declared),
        _evaluation_inputs(a, b),
        *_objective(a, b),
        _scope(a, b, declared),
        surroundings.precision(a, b, declared),
        *surroundings.hardware(a, b, declared),
        surroundings.code(a, b, declared),
        surroundings.libraries(a, b, declared),
        *surroundings.clocks(a, b),
        _resumed(a, b),
        _completed(a, b),
        _whole(a, b),
    )
    if a.run.path.absolute() == b.run.path.absolute():
        return tuple(replace(check, passed=True, note="one run with itself", allows={}) for check in every)
    return (*every, *absences(a, b))


def first_step_fed_differently(a: RunFacts, b: RunFacts) -> int | None:
    """The first step, of those that both runs have, whose tokens differ or are unknown; None when there is none.

    A step's fingerprint covers every step before it, so one whose line was torn is vouched for by the next.
    """
    fed_b = dict(zip(b.steps.numbers, b.steps.fed, strict=True))
    pairs = ((step, fed, fed_b[step]) for step, fed in zip(a.steps.numbers, a.steps.fed, strict=True) if step in fed_b)
    return next((step for step, one, other in pairs if one is None or one != other), None)


def _declared_change(found: Sequence[Difference]) -> Check:
    undeclared = [one for one in found if not one.declared]
    if undeclared:
        sides = ({one.key: one.a for one in undeclared}, {one.key: one.b for one in undeclared})
        note = f"{len(undeclared)} undeclared: {listed(list(sides[0]))}"
        return Check("declared change", False, *sides, note, (), ALL_NO)
    words = ", ".join(one.key for one in found) or "none"
    many = " (an effect cannot be laid to one of them)" if len(found) > 1 else ""
    return Check("declared change", True, words, words, f"{len(found)} declared{many}" if found else "")


def _initial_weights(a: RunFacts, b: RunFacts, declared: tuple[str, ...]) -> Check:
    values = a.fingerprint("weights_initial"), b.fingerprint("weights_initial")
    return Check.equal("initial weights", values, {"loss": NO}, brought=among(declared, BRINGS_WEIGHTS))


def _tokens_fed(a: RunFacts, b: RunFacts, declared: tuple[str, ...]) -> Check:
    allows = {"loss": NO, "speed": LIMITS, "memory": LIMITS}
    shared = sorted({*a.steps.numbers} & {*b.steps.numbers})
    if not shared:
        return Check.equal("tokens fed", (None, None), allows)
    first = first_step_fed_differently(a, b)
    step = shared[-1] if first is None else first
    values = [facts.steps.fed[facts.steps.numbers.index(step)] for facts in (a, b)]
    if first is None:
        return Check("tokens fed", True, values[0], values[1], f"the same up to step {step}")
    brought = among(declared, BRINGS_TOKENS)
    return Check.equal("tokens fed", values, allows, f"first differ at step {first}", brought)


def _evaluation_inputs(a: RunFacts, b: RunFacts) -> Check:
    if a.experiment and b.experiment and not (a.experiment.get("evaluate") or b.experiment.get("evaluate")):
        return Check("evaluation inputs", True, "none", "none", "neither run evaluates: only training loss is shown")
    values = [facts.fingerprint("evaluation_inputs") or facts.evaluations.inputs for facts in (a, b)]
    return Check.equal("evaluation inputs", values, {"loss": NO}, "not the same validation data")


def _objective(a: RunFacts, b: RunFacts) -> tuple[Check, ...]:
    """Whether both losses measure the same; nobody is asked where both are cross-entropy, as almost everywhere."""
    values = [facts.own_objective or CROSS_ENTROPY for facts in (a, b)]
    if set(values) == {CROSS_ENTROPY}:
        return ()
    note = "" if values[0] == values[1] else "the figures of two losses that measure different things"
    return (Check.equal("objective", values, {"loss": NO}, note),)


def _scope(a: RunFacts, b: RunFacts, declared: tuple[str, ...]) -> Check:
    values = a.fingerprint("scope"), b.fingerprint("scope")
    note = "warm-up, observed steps or what the clock covers"
    return Check.equal("measurement scope", values, {"speed": NO, "memory": NO}, note, among(declared, BRINGS_SCOPE))


def _resumed(a: RunFacts, b: RunFacts) -> Check:
    values = [f"attempt {facts.attempt}" if facts.attempt > 1 else "not resumed" for facts in (a, b)]
    return Check.equal("resumed", values, ALL_LIMITS, "a resumed run starts its machine and caches anew on the way")


def _completed(a: RunFacts, b: RunFacts) -> Check:
    if a.status == b.status == "completed":
        return Check("both completed", True, a.status, b.status)
    shared = min((facts.steps.numbers or [0])[-1] for facts in (a, b))
    return Check("both completed", False, a.status, b.status, f"compared up to step {shared}", (), ALL_LIMITS)


def _whole(a: RunFacts, b: RunFacts) -> Check:
    one, other = _damage(a), _damage(b)
    if not one and not other:
        return Check("whole records", True, "whole", "whole")
    return Check("whole records", False, one or "whole", other or "whole", "what is lost is left out", (), ALL_LIMITS)


def _damage(facts: RunFacts) -> str:
    parts = [
        counted(facts.torn, "torn line") if facts.torn else "",
        f"{counted(facts.steps.missing, 'step')} missing" if facts.steps.missing else "",
        f"unreadable: {', '.join(facts.unreadable)}" if facts.unreadable else "",
        "summary rebuilt from the metrics" if facts.summary.get("rebuilt") else "",
    ]
    return ", ".join(part for part in parts if part)
