"""The words of a comparison: three questions, three verdicts, and the check that decides between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

QUESTIONS = ("loss", "speed", "memory")


class Verdict(StrEnum):
    """How far two runs answer a question together."""

    COMPARABLE = "comparable"
    WITHIN_LIMITS = "within limits"
    NOT_COMPARABLE = "not comparable"

    @property
    def rank(self) -> int:
        """0 for comparable, more for less."""
        return list(Verdict).index(self)


LIMITS, NO = Verdict.WITHIN_LIMITS, Verdict.NOT_COMPARABLE
ALL_LIMITS = dict.fromkeys(QUESTIONS, LIMITS)
ALL_NO = dict.fromkeys(QUESTIONS, NO)


@dataclass(frozen=True)
class Check:
    """One thing that must be the same in both runs, with both values and what a difference means for each question."""

    name: str
    passed: bool
    a: object
    b: object
    note: str = ""
    """What the difference is, or where it comes from, in words."""
    declared: tuple[str, ...] = ()
    """The declared changes that bring the difference with them."""
    allows: Mapping[str, Verdict] = field(default_factory=dict)
    """For a check that failed: the best verdict that it leaves to each question it bears on."""

    @classmethod
    def equal(
        cls,
        name: str,
        values: Sequence[object],
        allows: Mapping[str, Verdict],
        note: str = "",
        brought: tuple[str, ...] = (),
    ) -> Check:
        """Pass when both runs say the same; what the declared changes `brought` with them is within limits."""
        a, b = values
        if a is not None and a == b:
            return cls(name, True, a, b)
        if a is None or b is None:
            who = "neither run says" if a is None and b is None else f"run {'A' if a is None else 'B'} does not say"
            return cls(name, False, a, b, f"{who}: counted as different", (), allows)
        if brought:
            note = f"{note}{'; ' if note else ''}comes with the declared {', '.join(brought)}"
            allows = dict.fromkeys(allows, Verdict.WITHIN_LIMITS)
        return cls(name, False, a, b, note, brought, allows)


@dataclass(frozen=True)
class Judgement:
    """The verdict on one question, and the failed checks that it stands on."""

    question: str
    verdict: Verdict
    because: tuple[Check, ...]


def judge(checks: Iterable[Check]) -> tuple[Judgement, ...]:
    """The worst that any failed check leaves to each question."""
    failed = [check for check in checks if not check.passed]
    return tuple(_judge(question, failed) for question in QUESTIONS)


def _judge(question: str, failed: Iterable[Check]) -> Judgement:
    bearing = [check for check in failed if question in check.allows]
    verdict = max((check.allows[question] for check in bearing), key=lambda one: one.rank, default=Verdict.COMPARABLE)
    return Judgement(question, verdict, tuple(sorted(bearing, key=lambda check: -check.allows[question].rank)))


def among(declared: tuple[str, ...], prefixes: Sequence[str]) -> tuple[str, ...]:
    """The declared keys that are one of `prefixes` or stand below one."""
    return tuple(key for key in declared if any(key == one or key.startswith(f"{one}.") for one in prefixes))
