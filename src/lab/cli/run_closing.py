"""What a person is told when a run has ended: the figures, where they stand, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.cli.fact_lines import fact_lines
from lab.cli.output import near, plain, terminal_width, warn
from lab.cli.output import show as output
from lab.cli.time_limit import advice
from lab.compare import busy
from lab.compare.formats import counted, duration, quantity, size, speed
from lab.errors import LabError
from lab.runs import logs, records, regular
from lab.runs.status import attempt_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lab.launch.follow import Ending
    from lab.runs.directory import RunDirectory

Record = dict[str, Any]
LOG_LINES = 15
SWITCHED_OFF = "observers_switched_off"
"""The worker's note about observers that raised."""
COLOURS = {"completed": "green", "stopped": "yellow", "failed": "red", "lost": "red"}


def record(run: RunDirectory, ending: Ending, report: Path | None, links: Mapping[str, str]) -> Record:
    """The end of a run as plain values: what `lab run --json` prints."""
    return {
        "run_id": run.id,
        "path": run.path,
        "status": ending.word,
        "reason": ending.reason,
        "exit_code": ending.exit_code,
        "missing": list(ending.missing),
        "summary": _read(run.summary),
        "report": report,
        "links": dict(links),
    }


def show(run: RunDirectory, ending: Ending, report: Path | None, links: Mapping[str, str]) -> None:
    """Print the closing summary; what failed is shown with the end of its log."""
    from rich.text import Text

    colour = COLOURS.get(ending.word, "")
    reason = f": {ending.reason}" if ending.reason else ""
    output("", Text.assemble((ending.word, f"bold {colour}"), plain(reason, colour)))
    if told := advice(run, ending.reason, _read(run.config) or {}):
        output(plain(near(told), colour))
    if ending.word in ("failed", "lost"):
        _show_log(run)
    environment = _read(run.environment)
    facts = [*noted(environment), *figures_of(_read(run.summary)), *_places(run, report, links)]
    if ending.word == "completed" and not run.summary.exists():
        facts = [*_last_words(run), *facts]
    output("", *fact_lines(facts, terminal_width()), "")
    for missing in ending.missing:
        output(plain(f"not brought home: {missing}", "yellow"))
    for name, why in _table(_table(environment or {}, "notes"), SWITCHED_OFF).items():
        output(plain(f"observer {name} was switched off: {why}", "yellow"))
    output(Text.assemble(("Next  ", "dim"), "   ".join(_next(run, ending))))


def noted(environment: Record | None) -> Iterator[tuple[str, str, str]]:
    """Yield what the loop noted in words, such as the model that it took."""
    for name, note in _table(environment or {}, "notes").items():
        if isinstance(note, str):
            yield name, note, ""


def figures_of(summary: Record | None) -> Iterator[tuple[str, str, str]]:
    """Yield what a summary says: name, value, and what the value counts."""
    if summary is None:
        return
    loss, measured = _table(summary, "loss"), _table(summary, "measured")
    if loss.get("first") is not None:
        before = f"{_nats(loss.get('first'))} -> " if summary.get("steps") != 1 else ""
        yield "loss", f"{before}{_nats(loss.get('last'))}", f"over {_steps(summary, 'step')}"
    evaluations = [one for one in loss.get("evaluations") or () if isinstance(one, dict)]
    if evaluations:
        first, last = evaluations[0], evaluations[-1]
        moved = f"{_nats(first.get('loss'))} -> " if len(evaluations) > 1 else ""
        yield "evaluation", f"{moved}{_nats(last.get('loss'))}", f"after step {last.get('step')}, on fixed inputs"
    if measured:
        yield from _speed(measured)
    if isinstance(summary.get("elapsed_seconds"), (int, float)):
        yield "elapsed", duration(summary["elapsed_seconds"]), "in the worker, evaluation and saving included"
    if summary.get("status") == "completed" and summary.get("reason"):
        yield "ended early", str(summary["reason"]), ""
    if summary.get("rebuilt"):
        yield "summary", "rebuilt from the metrics", "the worker ended before it could write one"


def _steps(record: Record, noun: str) -> str:
    steps = record.get("steps")
    return counted(steps, noun) if isinstance(steps, int) else f"{noun}s"


def _speed(measured: Record) -> Iterator[tuple[str, str, str]]:
    rate, targets = measured.get("tokens_per_second"), measured.get("targets") or 0
    if rate is not None:
        yield "speed", speed(rate), f"{counted(round(targets), 'target')} in {_steps(measured, 'measured step')}"
    taken = measured.get("others_percent")
    if isinstance(taken, (int, float)) and taken >= 100 * busy.HEAVY:
        yield "busy machine", f"{taken:.0f} %", "of all cores went to other processes: it may cost speed"
    mfu = measured.get("mfu")
    detail = measured.get("peak_source") if mfu is not None else measured.get("mfu_reason")
    yield "MFU", quantity(mfu, "share") if mfu is not None else "unknown", str(detail or "")
    allocated, reserved = measured.get("peak_allocated_bytes"), measured.get("peak_reserved_bytes")
    if allocated is not None:
        yield "peak memory", size(allocated), f"{size(reserved)} reserved" if reserved is not None else ""


def _places(run: RunDirectory, report: Path | None, links: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    cost, resource = _read(run.cost) or {}, _read(run.resource) or {}
    if cost.get("dollars") is not None:
        rate = quantity(cost.get("dollars_per_hour"), "dollars")
        yield "cost", quantity(cost["dollars"], "dollars"), f"at {rate} an hour"
    if resource.get("status") not in (None, "none"):
        yield "machine", str(resource["status"]), str(resource.get("machine") or "")
    yield "run", near(run.path), ""
    if report is not None:
        yield "report", near(report), ""
    for tracker, link in links.items():
        yield tracker, link, ""


def _last_words(run: RunDirectory) -> Iterator[tuple[str, str, str]]:
    """What stages that are any command, and train nothing, said last."""
    for name in dict.fromkeys(str(line["stage"]) for line in _stage_lines(run) if line.get("event") == "ended"):
        try:
            said = [line for line in logs.end(run.logs / f"{name}.log").lines if line.strip()]
        except FileNotFoundError:
            continue
        except OSError as error:
            yield name, f"its log cannot be read: {error.strerror}", ""
            continue
        if said:
            yield name, said[-1].strip(), ""


def _next(run: RunDirectory, ending: Ending) -> Iterator[str]:
    if ending.word == "completed":
        yield f"lab runs show {run.id}"
        yield f"lab compare {run.id} OTHER"
        return
    if ending.word == "failed":
        yield f"lab runs logs {run.id}"
        yield f"lab resume {run.id} (once it is mended)"
    else:
        yield f"lab resume {run.id}"


def _show_log(run: RunDirectory) -> None:
    """The end of the log of the stage that failed, without what the attempts before left in it."""
    started = [line for line in _stage_lines(run) if line.get("event") == "started"]
    last = started[-1] if started else {"stage": "runner"}
    log, since = run.logs / f"{last.get('stage')}.log", last.get("log_start")
    try:
        end = logs.end(log, LOG_LINES, since=since if isinstance(since, int) else 0)
    except FileNotFoundError:
        return
    except OSError as error:
        output("", plain(near(regular.unreadable(log, error).what), "dim"))
        return
    before = f", without its first {size(end.earlier_bytes)}" if end.earlier_bytes else ""
    if end.lines:
        output("", plain(f"{near(log)}{before}", "dim"), *(plain(f"  {line}", "dim") for line in end.lines))


def _stage_lines(run: RunDirectory) -> list[Record]:
    try:
        return attempt_lines(run)
    except LabError as error:
        warn(near(error.what))
        return []


def _read(path: Path) -> Record | None:
    """A record; one that cannot be read is named, and the others are told."""
    try:
        return records.read_json(path)
    except LabError as error:
        warn(near(error.what))
        return None


def _nats(value: object) -> str:
    return quantity(value if isinstance(value, (int, float)) else None, "nats/token")


def _table(record: Record, key: str) -> Record:
    value = record.get(key)
    return value if isinstance(value, dict) else {}
