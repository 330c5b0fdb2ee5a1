"""What to say when a split stays without a document: what was read, why none of it could be used, what to change."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.data.documents import Counters, SplitName

SHOWN = 3
"""Reasons of rejected documents; the others are usually the same."""


def nothing_for(
    split: SplitName, source: str, counters: Counters, rejections: Sequence[str], *, exhausted: bool
) -> LabError:
    """The error of a split without a document; `exhausted` says that the source has no more than was read.

    Moving the border between the splits helps only where there is a usable document for each of them.
    """
    usable = counters.kept + counters.surplus
    if not counters.read:
        what = f"data.source {source}: yields no document."
    elif not usable:
        what = f"data.source {source}: no document can be used: {_counts(counters)}."
    else:
        what = f"No document came to the {split} split: {_counts(counters)}."
    return LabError("\n".join([what, *_reasons(counters.rejected, rejections)]), _advice(split, counters, exhausted))


def _counts(counters: Counters) -> str:
    shown = {key: value for key, value in asdict(counters).items() if value and key != "repaired"}
    return ", ".join(f"{value:,} {key}" for key, value in shown.items())


def _reasons(rejected: int, rejections: Sequence[str]) -> list[str]:
    lines = [f"  rejected: {reason}" for reason in rejections[:SHOWN]]
    return lines + ([f"  and {rejected - len(lines):,} more"] if rejected > len(lines) else [])


def _advice(split: SplitName, counters: Counters, exhausted: bool) -> str:
    usable = counters.kept + counters.surplus
    if not counters.read:
        return "Check data.source: what it names holds no record."
    if not usable and not counters.rejected:
        return "Check data.source: every text of it is empty."
    if not usable:
        return "Mend these records, or say in data.source where their text stands and how it is written."
    if not exhausted:
        return "Raise data.max_documents."
    more = "mend what was rejected" if counters.rejected else "give the source more documents"
    if usable == 1:
        return f"Each split needs a document of its own: {more}."
    turn = "raise" if split == "validation" else "lower"
    return f"{more.capitalize()}, or {turn} data.validation_fraction."
