"""How one run is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lab.cli import run_closing
from lab.cli.fact_lines import fact_lines
from lab.cli.output import near, plain, table, terminal_width
from lab.cli.output import show as output
from lab.cli.run_figures import stage_mark
from lab.cli.runs_listing import COLOURS
from lab.cli.time_limit import advice
from lab.compare.formats import counted, duration, quantity, size
from lab.errors import LabError
from lab.runs import records, shapes, tags
from lab.runs.row import last_change, read_row
from lab.runs.status import status
from lab.runs.summary import rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.table import Table

    from lab.runs.directory import RunDirectory
    from lab.runs.row import Row
    from lab.runs.status import Status

Record = dict[str, Any]
T = TypeVar("T")


def record(run: RunDirectory) -> Record:
    """Everything about one run as plain values."""
    now = status(run)
    unreadable: list[str] = []
    none: list[Record] = []
    return {
        "row": read_row(run),
        "status": now,
        "config": _lenient(run, "config"),
        "provenance": _lenient(run, "provenance"),
        "environment": _lenient(run, "environment"),
        "outcome": _lenient(run, "outcome"),
        "resource": _lenient(run, "resource"),
        "cost": _lenient(run, "cost"),
        "data_manifest": _lenient(run, "data_manifest"),
        "summary": _summary(run, now, unreadable),
        "stages": _or(none, unreadable, lambda: list(records.read_lines(run.stages))),
        "torn_lines": _or(0, unreadable, lambda: records.torn_lines(run.metrics)),
        "tags": tags.read(run),
        "tracking": _or(none, unreadable, lambda: list(records.read_lines(run.tracking))),
        "files": dict(_files(run)),
        "unreadable": list(dict.fromkeys(unreadable)),
    }


def show(run: RunDirectory, record: Record) -> None:
    """Print one run for a person."""
    from rich.text import Text

    unreadable = [one["unreadable"] for one in record.values() if isinstance(one, dict) and "unreadable" in one]
    record, faults = _fitting(record)
    now, row = record["status"], record["row"]
    colour = COLOURS.get(now.word, "")
    standing = Text.assemble((run.id, "bold"), "  ", (now.word, f"bold {colour}"))
    output(standing.append_text(plain(f"  {now.reason}" if now.reason else "", colour)))
    if told := advice(run, now.reason, record["config"]):
        output(plain(near(told), colour))
    experiment = record["config"].get("experiment") or {}
    output(plain(experiment.get("description") or "", "dim"), "")
    said = run_closing.noted(record["environment"])
    facts = [*_origin(record, row), *said, *_money(record), *run_closing.figures_of(record["summary"])]
    output(*fact_lines(facts, terminal_width()), "")
    stages = _stages(record["stages"])
    if stages.row_count:
        output(stages, "")
    output(_listing(record["files"]))
    for line in record["tracking"]:
        if not line.get("synced"):
            output(plain(f"{line.get('tracker')}: {line.get('reason')}", "yellow"))
    if faults:
        output(plain(f"left out, because nothing can be made of them: {', '.join(faults)}", "yellow"))
    for what in dict.fromkeys([*unreadable, *record["unreadable"]]):
        output(plain(near(what), "yellow"))
    if record["torn_lines"]:
        output(plain(f"{counted(record['torn_lines'], 'torn line')} of metrics.jsonl left out", "yellow"))


def _fitting(record: Record) -> tuple[Record, list[str]]:
    """The records without the values that a listing cannot show; `--json` holds them as they are."""
    whole, faults = dict(record), list[str]()
    for name in shapes.SHAPES.keys() & record.keys():
        many = record[name] if name == "stages" else [record[name] or {}]
        found = [shapes.fitting(name, one) for one in many]
        whole[name] = [one for one, _ in found] if name == "stages" else found[0][0]
        faults += [f"{name}: {key}" for _, keys in found for key in keys]
    return whole, sorted(faults)


def _origin(record: Record, row: Row) -> Iterator[tuple[str, str, str]]:
    base, changes = last_change(record["config"])
    for key, before, after in changes:
        yield "change", f"{key} {before} -> {after}", f"from {base}"
    repository = record["provenance"].get("repository") or {}
    commit = repository.get("commit")
    changed = len(repository.get("tracked_changes") or ())
    about = [f"tag {tag}" for tag in repository.get("tags") or ()]
    about += [counted(changed, "tracked change")] if changed else []
    yield "created", row.created or "-", f"on {row.backend}" + (f", attempt {row.attempt}" if row.attempt > 1 else "")
    yield (
        "code",
        str(commit)[:12] if commit else str(repository.get("state") or "-"),
        ", ".join(about),
    )
    device = record["environment"].get("device") or {}
    if device.get("name"):
        yield "device", str(device["name"]), str(record["environment"].get("precision") or "")
    if row.tags or row.note:
        yield "tags", ", ".join(row.tags) or "-", row.note


def _money(record: Record) -> Iterator[tuple[str, str, str]]:
    """What a rented run cost, for what, and for each million target tokens."""
    cost = record["cost"]
    if not isinstance(cost.get("dollars"), (int, float)):
        return
    phases = [f"{name} ${dollars:.2f}" for name, dollars in (cost.get("phases") or {}).items() if dollars]
    yield "cost", f"${cost['dollars']:.2f}", ", ".join(phases)
    each = cost.get("dollars_per_million_tokens") or {}
    if each:
        alone, whole = (quantity(each.get(part), "dollars") for part in ("train", "all"))
        yield "per million tokens", alone, f"training alone; {whole} with everything"
    resource = record["resource"]
    if resource.get("machine"):
        yield "machine", str(resource["machine"]), f"{resource.get('status')}, {resource.get('gpu') or 'GPU unknown'}"


def _stages(lines: Sequence[Record]) -> Table:
    """Each stage as it ended; of which attempt, where there was more than one."""
    attempts = max((number for line in lines if isinstance(number := line.get("attempt"), int)), default=1)
    listing = table("STAGE", "ENDED", "TOOK", "", right=("TOOK",), whole=("STAGE", "ENDED", "TOOK"))
    attempt: object = 1
    for line in lines:
        attempt = line.get("attempt", attempt) if line.get("event") == "entered" else attempt
        if line.get("event") == "ended":
            mark, colour = stage_mark(line.get("exit_code"))
            seconds = line.get("seconds")
            listing.add_row(
                plain(f"{line.get('stage')}{f' ({attempt})' if attempts > 1 else ''}"),
                plain(f"{mark} exit {line.get('exit_code')}" if line.get("exit_code") else f"{mark} ok", colour),
                plain(duration(seconds) if isinstance(seconds, (int, float)) else None),
                plain(line.get("reason") or "", "dim"),
            )
    return listing


def _listing(files: dict[str, int]) -> Table:
    listing = table("FILE", "SIZE", right=("SIZE",), whole=("SIZE",))
    for name, bytes_ in files.items():
        listing.add_row(plain(near(name)), size(bytes_))
    return listing


def _lenient(run: RunDirectory, name: str) -> Record:
    try:
        return records.read_json(getattr(run, name)) or {}
    except LabError as error:
        return {"unreadable": error.what}


def _summary(run: RunDirectory, now: Status, unreadable: list[str]) -> Record | None:
    """The worker's summary, or what the metrics still tell where it left none that can be read."""
    known = _or(None, unreadable, lambda: records.read_json(run.summary))
    if known is not None or not run.metrics.is_file():
        return known
    return _or(None, unreadable, lambda: rebuilt(run, now.word, now.reason))


def _or(instead: T, unreadable: list[str], read: Callable[[], T]) -> T:
    """What was read, or what stands for it, and then why it could not be."""
    try:
        return read()
    except LabError as error:
        unreadable.append(error.what)
        return instead


def _files(run: RunDirectory) -> Iterator[tuple[str, int]]:
    """The run's files with their sizes; links are named, never followed."""
    for path in sorted(run.path.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(run.path).as_posix(), path.lstat().st_size
