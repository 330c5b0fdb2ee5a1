"""How runs are listed: which of them, in which order, with which columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.cli import run_closing
from lab.cli.output import PIPED_WIDTH, console, plain, print_json, table, terminal_width
from lab.cli.output import show as output
from lab.compare.formats import duration, quantity, speed_digits
from lab.runs import filter as filtering
from lab.runs import filter_fields, index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table
    from rich.text import Text

    from lab.runs.filter_fields import Field
    from lab.runs.row import Row
    from lab.runs.status import Word
    from lab.settings import Settings

MARKS = {"completed": "\u2713", "failed": "\u2717", "lost": "\u2717", "stopped": "\u25a0", "running": "\u25cf"}
COLOURS = {**run_closing.COLOURS, "running": "cyan", "created": "dim"}
COLUMNS = ("run", "status", "steps", "loss", "evaluation", "tokens_per_second", "took", "tag")
GIVEN_UP = ("tag", "took", "evaluation", "steps", "tokens_per_second")
"""Which of these go first where a terminal is too narrow; a column is left out, never cut within a figure."""
_HEADINGS = {"tokens_per_second": "TOKENS/S", "tag": "TAGS"}
_FOLDED = ("change", "tag", "note", "reason")
_UNITS = {"loss": "nats/token", "evaluation": "nats/token", "mfu": "share"}


@dataclass(frozen=True)
class Wanted:
    """What was asked of the list."""

    newest: int = 20
    all: bool = False
    status: Word | None = None
    tag: str | None = None
    where: str | None = None
    sort: str | None = None
    columns: str | None = None

    @property
    def reads_all(self) -> bool:
        """Whether the newest runs alone cannot answer it."""
        return self.all or any(one is not None for one in (self.status, self.tag, self.where, self.sort))


def show(wanted: Wanted, settings: Settings, *, as_json: bool) -> None:
    """Print the runs that were asked for; every fault in what was asked is found before a run is read."""
    fields = _columns(wanted.columns)
    holds = filtering.parse(wanted.where) if wanted.where is not None else None
    by = filter_fields.named(wanted.sort.removeprefix("-")) if wanted.sort is not None else None
    rows = index.rows(settings, None if wanted.reads_all else wanted.newest)
    rows = [
        row for row in rows if wanted.status in (None, row.status) and (wanted.tag is None or wanted.tag in row.tags)
    ]
    if holds is not None:
        rows = [row for row in rows if holds(row)]
    total = len(rows) if wanted.reads_all else index.count(settings)
    if by is not None:
        rows = filter_fields.ordered(rows, by, descending=str(wanted.sort).startswith("-"))
    shown = rows if wanted.all else rows[: wanted.newest] if by is not None else rows[-wanted.newest :]
    if as_json:
        print_json(shown if wanted.columns is None else [{one.name: one.of(row) for one in fields} for row in shown])
        return
    _print(shown, fields, any_run=bool(rows) or index.count(settings) > 0, chosen=wanted.columns is not None)
    if total > len(shown):
        output(plain(f"{total - len(shown):,} {'older' if by is None else 'more'}: lab runs --all", "dim"))


def _columns(names: str | None) -> list[Field]:
    wanted = COLUMNS if names is None else [name.strip() for name in names.split(",") if name.strip()]
    return [filter_fields.named(name) for name in wanted or COLUMNS]


def _print(rows: Sequence[Row], fields: Sequence[Field], *, any_run: bool, chosen: bool) -> None:
    if not rows:
        output(
            plain(
                "No run is like that. All of them: lab runs --all"
                if any_run
                else "No runs. Make one with: lab run NAME"
            )
        )
        return
    listing, left_out = _listing(rows, fields), list[str]()
    width = None if chosen else terminal_width()
    for name in GIVEN_UP:
        if width is None or _width(listing) <= width:
            break
        fields = [one for one in fields if one.name != name]
        listing = _listing(rows, fields)
        left_out += [name] if any(_told(row, name) for row in rows) else []
    output(listing)
    if left_out:
        output(
            plain(
                f"Left out in {width} columns: {', '.join(left_out)}. See them with --columns run,{','.join(left_out)}",
                "dim",
            )
        )


def _listing(rows: Sequence[Row], fields: Sequence[Field]) -> Table:
    headings = {one.name: _HEADINGS.get(one.name, one.name.upper().replace("_", " ")) for one in fields}
    numbers = [headings[one.name] for one in fields if one.kind in ("number", "seconds")]
    whole = [headings[one.name] for one in fields if one.name not in _FOLDED]
    listing = table(*headings.values(), right=numbers, whole=whole)
    for row in rows:
        listing.add_row(*(_cell(fields_one, row) for fields_one in dict.fromkeys(fields)))
    return listing


def _width(listing: Table) -> int:
    """How many columns the table takes where nothing has to give way."""
    from rich.measure import Measurement

    free = console()
    return Measurement.get(free, free.options.update(max_width=PIPED_WIDTH), listing).maximum


def _told(row: Row, name: str) -> bool:
    """Whether the row has anything in that column."""
    return filter_fields.named(name).of(row) not in (None, ())


def _cell(field: Field, row: Row) -> Text:
    own = _OWN.get(field.name)
    if own is not None:
        return own(row)
    value = field.of(row)
    if value is not None and field.kind == "seconds":
        return plain(duration(value))
    if field.name in _UNITS:
        return plain(quantity(value, _UNITS[field.name]))
    return plain(value)


def _status(row: Row) -> Text:
    attempt = f" ({row.attempt})" if row.attempt > 1 else ""
    return plain(f"{MARKS.get(row.status, ' ')} {row.status}{attempt}", COLOURS.get(row.status, ""))


def _steps(row: Row) -> Text:
    if row.steps is None and row.planned_steps is None:
        return plain(None)
    return plain(f"{row.steps or 0}/{row.planned_steps}" if row.planned_steps else row.steps)


def _speed(row: Row) -> Text:
    return plain(None if row.tokens_per_second is None else speed_digits(row.tokens_per_second))


def _tags(row: Row) -> Text:
    return plain(", ".join(row.tags), "dim")


_OWN: dict[str, Callable[[Row], Text]] = {
    "status": _status,
    "steps": _steps,
    "tokens_per_second": _speed,
    "tag": _tags,
}
