"""Facts as aligned lines: what a closing run, `lab runs show` and its following all print."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from lab.cli.output import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

NARROWEST = 16
"""What a value counts is not squeezed into fewer columns: it goes on at the left instead."""


def fact_lines(facts: Sequence[tuple[str, str, str]], width: int | None = None) -> Iterator[Text]:
    """One line a fact: its name, its value, and dimly what the value counts; that goes on below itself in `width`."""
    from rich.text import Text

    widest_name = max((len(name) for name, _, _ in facts), default=0)
    widest_value = max((len(value) for _, value, detail in facts if detail), default=0)
    for name, value, detail in facts:
        padded = value.ljust(widest_value) if detail else value
        before = widest_name + len(padded) + 6
        if width is not None and width - before >= NARROWEST:
            detail = f"\n{' ' * before}".join(wrap(detail, width - before))
        yield Text.assemble(
            plain(name.ljust(widest_name), "dim"), "   ", plain(padded, "bold"), "   ", plain(detail, "dim")
        )
