"""How values are written for people: one way for each unit, in the terminal, in Markdown and on a page."""

from __future__ import annotations

import math
import re
from string import ascii_uppercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.compare.statistics import Interval

NOTHING = "-"
_DIGEST = re.compile(r"[0-9a-f]{40,}")
_LONGEST = 60
_LISTED = 34


def letter(place: int) -> str:
    """What a run is called in a comparison: A for the reference, then B, C ..."""
    return ascii_uppercase[place] if place < len(ascii_uppercase) else f"R{place + 1}"


def counted(count: int, noun: str) -> str:
    """How many of what, such as `1 step` or `1,200 steps`; every count that a person reads is written by this."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def quantity(value: float | None, unit: str = "") -> str:
    """A figure with its unit; `-` for none, and NaN and infinity by name."""
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("infinity" if value > 0 else "-infinity")
    written = _WRITTEN.get(unit)
    return written(value) if written else f"{value:,.6g}{' ' if unit else ''}{unit}"


def speed(tokens_per_second: float) -> str:
    """Tokens per second in words; a step that is looked at closely may take seconds a token."""
    return f"{speed_digits(tokens_per_second)} tokens/s"


def speed_digits(tokens_per_second: float) -> str:
    """The same without its unit."""
    return f"{tokens_per_second:,.0f}" if tokens_per_second >= 10 else f"{tokens_per_second:.2g}"


def moved(difference: float | None, unit: str) -> str:
    """A difference with its sign and unit; of two shares, in percentage points."""
    if difference is None or not math.isfinite(difference):
        return ""
    if difference == 0:
        return "0"
    text = quantity(abs(difference), unit)
    if unit == "share":
        text = text.replace(" %", " points")
    return f"{'+' if difference > 0 else '-'}{text}"


def percent(ratio: float | None) -> str:
    """A share with its sign: `-10.4 %`."""
    if ratio is None or not math.isfinite(ratio):
        return ""
    digits = 1 if abs(ratio) >= 0.001 or ratio == 0 else 3
    return f"{100 * ratio:+.{digits}f} %"


def interval(one: Interval | None, unit: str) -> str:
    """Both ends: `2,180 to 2,240`."""
    return f"{quantity(one.low, unit)} to {quantity(one.high, unit)}" if one else ""


def value(content: object) -> str:
    """Any recorded value in one short line; a hash by its first characters."""
    if content is None:
        return NOTHING
    if isinstance(content, bool):
        return str(content).lower()
    if isinstance(content, dict):
        return ", ".join(f"{key}: {value(inner)}" for key, inner in content.items()) or "none"
    if isinstance(content, (list, tuple)):
        return ", ".join(value(inner) for inner in content) or "none"
    if isinstance(content, float):
        return f"{content:.6g}"
    text = _DIGEST.sub(lambda match: match[0][:8], str(content))
    return _cut(text, _LONGEST)


def short(content: object) -> str:
    """Any recorded value in a cell of a table: of a long list the first entries and how many more there are."""
    if isinstance(content, dict) and content:
        return listed([f"{key}: {value(inner)}" for key, inner in content.items()])
    if isinstance(content, (list, tuple)) and content:
        return listed([value(inner) for inner in content])
    return value(content)


def listed(entries: Sequence[str], longest: int = _LISTED) -> str:
    """As many of the entries as are not too long together, one at least, and how many more there are."""
    shown = [_cut(entries[0], longest)]
    while len(shown) < len(entries) and len(", ".join([*shown, entries[len(shown)]])) <= longest:
        shown.append(entries[len(shown)])
    more = len(entries) - len(shown)
    return f"{', '.join(shown)}{f' and {more:,} more' if more else ''}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def duration(seconds: float, decimals: int = 1) -> str:
    """How long something takes: `24.7 s`, `4 min 3 s` or `2 h 5 min`; every time that a person reads has this form.

    A time that is still being counted has no `decimals`: the eye does not follow them.
    """
    if not math.isfinite(seconds):
        return NOTHING
    if round(seconds, decimals) < 60:
        return f"{seconds:.{decimals}f} s"
    amount, large, small = (round(seconds), "min", "s") if round(seconds) < 3600 else (round(seconds / 60), "h", "min")
    whole, rest = divmod(amount, 60)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"


def _measured_seconds(seconds: float) -> str:
    """A figure that is compared: as a duration, but a few seconds with the digits in which two steps differ."""
    return f"{seconds:.4g} s" if seconds < 10 else duration(seconds)


def size(count: float) -> str:
    """Bytes in powers of 1024."""
    if not math.isfinite(count):
        return NOTHING
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.2f} {unit}"
    return counted(round(count), "byte")


_WRITTEN: dict[str, Callable[[float], str]] = {
    "nats/token": lambda number: f"{number:.4f}",
    "bits/byte": lambda number: f"{number:.4f}",
    "tokens/s": lambda number: f"{number:,.0f}/s" if number >= 100 else f"{number:,.2f}/s",
    "tokens": lambda number: f"{number:,.0f}",
    "tokens/dollar": lambda number: f"{number:,.0f}/$",
    "seconds": _measured_seconds,
    "bytes": size,
    "share": lambda number: f"{100 * number:.2f} %" if abs(number) >= 0.001 else f"{100 * number:.2g} %",
    "percent": lambda number: f"{number:,.1f} %",
    "watts": lambda number: f"{number:,.0f} W",
    "dollars": lambda number: f"${number:.4f}",
}
