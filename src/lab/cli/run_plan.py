"""What a run is about to do, shown before it does anything."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lab.cli.output import console, plain, table
from lab.cli.output import show as output
from lab.compare.formats import size
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from rich.text import Text

    from lab.contracts import Quote
    from lab.jobs.bundle import Bundle
    from lab.launch.plan import Plan

Record = dict[str, Any]
_SHORT = 12


def record(plan: Plan, trackers: Sequence[str]) -> Record:
    """The whole plan as plain values: what `--dry-run --json` prints."""
    return {
        "experiment": plan.experiment.model_dump(mode="json", exclude_none=True),
        "config": plan.config("(given when it starts)"),
        "backend": plan.backend_choice.name,
        "quote": plan.quote,
        "job": plan.job.record(),
        "differences": plan.differences,
        "trackers": list(trackers),
        "provenance": plan.provenance,
        "bundle": {
            "sha256": plan.bundle.sha256,
            "code_sha256": plan.bundle.code_sha256,
            "bytes": plan.bundle.size_bytes,
            "archive_bytes": len(plan.bundle.archive),
            "files": _files(plan.bundle),
            "skipped": plan.bundle.skipped,
        },
        "carried": {"files": _files(plan.carried), "skipped": plan.carried.skipped},
    }


def _files(bundle: Bundle) -> list[Record]:
    return [{"path": file.path, "bytes": len(file.content), "sha256": file.sha256} for file in bundle.files]


def show(plan: Plan, trackers: Sequence[str]) -> None:
    """Print the plan and the exact bundle for a person; nothing is written anywhere."""
    output(_title(plan), "")
    facts = table("NAME", "VALUE", whole=("NAME",))
    facts.show_header = False
    facts.add_row(plain("backend", "dim"), plain(f"{plan.backend_choice.name}: {plan.quote.description}"))
    if plan.quote.unknown:
        facts.add_row("", plain(plan.quote.unknown, "yellow"))
    for number, stage in enumerate(plan.job.stages):
        facts.add_row(plain("" if number else "stages", "dim"), plain(f"{stage.name}: {' '.join(stage.argv)}"))
    for number, line in enumerate(differing(plan)):
        facts.add_row(plain("" if number else "differs", "dim"), plain(line, "yellow"))
    facts.add_row(plain("code", "dim"), plain(code(plan)))
    facts.add_row(plain("trackers", "dim"), plain(", ".join(trackers) or "none"))
    if plan.job.forwarded:
        facts.add_row(
            plain("forwarded", "dim"), plain(f"{', '.join(plan.job.forwarded)} (names only are written down)")
        )
    output(facts, "")
    output(_listed("BUNDLE", plan.bundle), "")
    if plan.carried.files:
        output(_listed("CARRIED BESIDE IT", plan.carried), "")
    for skipped in (*plan.bundle.skipped, *plan.carried.skipped):
        output(plain(f"left out: {skipped.path}: {skipped.reason}", "yellow"))
    output(plain(f"bundle  {plan.bundle.sha256}", "dim"), plain("Dry run: nothing was written.", "bold"))


def announce(plan: Plan, run_id: str) -> None:
    """Say on standard error what starts now, in as few lines as it takes."""
    from rich.text import Text

    facts = [("run", run_id, "bold"), ("backend", f"{plan.backend_choice.name}: {plan.quote.description}", "")]
    facts.append(("code", f"{code(plan)}, {len(plan.bundle.files)} files", ""))
    facts += [("differs", line, "yellow") for line in differing(plan)]
    facts += [("left out", f"{skipped.path}: {skipped.reason}", "yellow") for skipped in plan.bundle.skipped]
    err = console(stderr=True)
    err.print(_title(plan), soft_wrap=True)
    said = ""
    for name, value, style in facts:
        err.print(Text.assemble(((name if name != said else "").ljust(10), "dim"), plain(value, style)), soft_wrap=True)
        said = name
    err.print()


def renting(*, max_price: float | None, max_cost: float | None, keep: bool) -> tuple[str, ...]:
    """The flags about money as options of the backend; one that rents nothing refuses them by name."""
    given = {"max_price": max_price, "max_cost": max_cost, "keep": "true" if keep else None}
    return tuple(f"{name}={value}" for name, value in given.items() if value is not None)


def confirm(quote: Quote, *, yes: bool) -> None:
    """Ask before money is spent. Raises `UsageError` when nobody can answer."""
    if yes or not quote.candidates:
        return
    err = console(stderr=True)
    columns = list(dict.fromkeys(key for candidate in quote.candidates for key in candidate))
    candidates = table(*(column.upper().replace("_", " ") for column in columns), whole=columns)
    for candidate in quote.candidates:
        candidates.add_row(*(plain(candidate.get(column)) for column in columns))
    err.print(candidates)
    if not sys.stdin.isatty():
        raise UsageError("This run costs money, and nobody is here to say yes.", "Say it with --yes.")
    import typer

    typer.confirm(f"{quote.description}, at most ${quote.max_dollars:.2f}. Start?", abort=True, err=True)


def differing(plan: Plan) -> list[str]:
    """Each difference between the declared environment and this machine, in one line."""
    return [f"{one.what} {_named(one.declared)} is declared, here is {_named(one.actual)}" for one in plan.differences]


def code(plan: Plan) -> str:
    """Which code runs, as far as one line can say."""
    own = _state(plan.provenance["repository"])
    lab = plan.provenance["lab_repository"]
    return f"{own}; lab: {_state(lab)}" if lab else own


def _state(repository: Any) -> str:
    commit, branch, changes = repository["commit"], repository["branch"], len(repository["tracked_changes"])
    words = [f"{commit[:_SHORT]}{f' on {branch}' if branch else ''}" if commit else repository["state"]]
    words += [f"tag {tag}" for tag in repository["tags"]]
    if changes:
        words.append(f"{changes} tracked {'file' if changes == 1 else 'files'} changed")
    if repository.get("untracked_code"):
        words.append(f"{len(repository['untracked_code'])} untracked")
    return ", ".join(words)


def _title(plan: Plan) -> Text:
    from rich.text import Text

    return Text.assemble((plan.experiment.name, "bold"), "  ", plain(plan.experiment.description, "dim"))


def _named(value: str | None) -> str:
    """A value in one short piece; an image's digest says nothing to a person."""
    return "none" if value is None else value.partition("@")[0]


def _listed(title: str, bundle: Bundle) -> Table:
    files = table(title, "SIZE", "SHA-256", right=("SIZE",), whole=("SIZE", "SHA-256"))
    for file in bundle.files:
        files.add_row(plain(file.path), size(len(file.content)), plain(file.sha256[:_SHORT], "dim"))
    total = f"{len(bundle.files)} files"
    files.add_row(plain(total, "bold"), plain(size(bundle.size_bytes), "bold"), "")
    return files
