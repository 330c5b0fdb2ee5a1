"""What a run is about to do, shown before it does anything."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lab.cli import experiment_view, run_offer
from lab.cli.output import console, plain, table
from lab.cli.output import show as output
from lab.compare.formats import counted, size
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from rich.text import Text

    from lab.contracts import Quote
    from lab.jobs.bundle import Bundle
    from lab.launch.plan import Plan
    from lab.runs.environment import Difference

Record = dict[str, Any]
_SHORT = 12
_KINDS = {"gpu": "GPU", "image": "container image"}
"""What only some machines have."""


def record(plan: Plan, trackers: Sequence[str]) -> Record:
    """The whole plan as plain values: what `--dry-run --json` prints."""
    return {
        "experiment": plan.experiment.model_dump(mode="json", exclude_none=True),
        "config": plan.config("(given when it starts)"),
        "backend": plan.backend_choice.name,
        "quote": plan.quote,
        "job": plan.job.record(),
        "installs": run_offer.installs(plan),
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


def show(plan: Plan, trackers: Sequence[str], *, files: bool = False) -> None:
    """Print the plan and what would travel for a person, on request file by file; nothing is written anywhere."""
    output(_title(plan), "", _facts(plan, trackers), "")
    if plan.quote.candidates:
        output(run_offer.offers(plan.quote), "")
    if files:
        output(_listed("BUNDLE", plan.bundle), "")
        if plan.carried.files:
            output(_listed("BESIDE IT", plan.carried), "")
    for skipped in (*plan.bundle.skipped, *plan.carried.skipped):
        output(plain(f"left out: {skipped.path}: {skipped.reason}", "yellow"))
    hint = "" if files else " --files lists what would travel."
    output(plain(f"Dry run: nothing was written.{hint}", "bold"))


def _facts(plan: Plan, trackers: Sequence[str]) -> Table:
    rows = [("change", line, "") for line in _changes(plan)]
    rows.append(("backend", f"{plan.backend_choice.name}: {plan.quote.description}", ""))
    rows += [("", plan.quote.unknown, "yellow")] if plan.quote.unknown else []
    rows += [(name, value, "") for name, value in run_offer.facts(plan)]
    rows += [("stages", f"{stage.name}: {' '.join(stage.argv)}", "") for stage in plan.job.stages]
    rows += _otherwise(plan)
    rows += [("code", code(plan), ""), ("trackers", ", ".join(trackers) or "none", "")]
    if plan.job.forwarded:
        rows.append(("forwarded", f"{', '.join(plan.job.forwarded)} (names only are written down)", ""))
    rows.append(("bundle", _carriage(plan.bundle), ""))
    if plan.carried.files:
        rows.append(("beside it", f"{_carriage(plan.carried)}, of plugins installed here", ""))
    facts = table("NAME", "VALUE", whole=("NAME",))
    facts.show_header = False
    said = ""
    for name, value, style in rows:
        facts.add_row(plain(name if name != said else "", "dim"), plain(value, style))
        said = name
    return facts


def announce(plan: Plan, run_id: str) -> None:
    """Say on standard error what starts now, in as few lines as it takes."""
    from rich.text import Text

    facts = [("run", run_id, "bold"), *(("change", line, "") for line in _changes(plan))]
    facts.append(("backend", f"{plan.backend_choice.name}: {plan.quote.description}", ""))
    facts.append(("code", f"{code(plan)}, {counted(len(plan.bundle.files), 'file')}", ""))
    facts += _otherwise(plan)
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
    console(stderr=True).print(run_offer.offers(quote))
    if not sys.stdin.isatty():
        raise UsageError("This run costs money, and nobody is here to say yes.", "Say it with --yes.")
    import typer

    typer.confirm(f"{quote.description}, at most ${quote.max_dollars:.2f}. Start?", abort=True, err=True)


def _changes(plan: Plan) -> list[str]:
    """What the experiment, or --set, declares to change in what it stands on."""
    declared, written = plan.loaded.declarations[-1:], experiment_view.value
    return [
        f"{change.key} {written(change.before)} -> {written(change.after)}, from {link.base}"
        for link in declared
        for change in link.changes
    ]


def differing(plan: Plan, without: Sequence[Difference] = ()) -> list[str]:
    """Each difference between the declared environment and this machine, in one line."""
    found = [one for one in plan.differences if one not in without]
    return [f"{one.what} {_named(one.declared)} is declared, here is {_named(one.actual)}" for one in found]


def _otherwise(plan: Plan) -> list[tuple[str, str, str]]:
    """The differences as lines; what this machine does not have at all is one, and no warning: it is another kind."""
    absent = [one for one in plan.differences if one.actual is None and one.what in _KINDS]
    lines = [("differs", line, "yellow") for line in differing(plan, without=absent)]
    if absent:
        without = " and ".join(f"no {_KINDS[one.what]}" for one in absent)
        lines.append(("machine", f"{without} here; declared: {', '.join(_named(one.declared) for one in absent)}", ""))
    return lines


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
        words.append(f"{counted(changes, 'tracked file')} changed")
    if repository.get("untracked_code"):
        words.append(f"{len(repository['untracked_code'])} untracked with code")
    return ", ".join(words)


def _title(plan: Plan) -> Text:
    from rich.text import Text

    return Text.assemble((plan.experiment.name, "bold"), "  ", plain(plan.experiment.description, "dim"))


def _named(value: str | None) -> str:
    """A value in one short piece; an image's digest says nothing to a person."""
    return "none" if value is None else value.partition("@")[0]


def _carriage(bundle: Bundle) -> str:
    total = f"{counted(len(bundle.files), 'file')}, {size(bundle.size_bytes)}"
    return f"{total}, {size(len(bundle.archive))} packed, SHA-256 {bundle.sha256[:_SHORT]}"


def _listed(title: str, bundle: Bundle) -> Table:
    files = table(title, "SIZE", "SHA-256", right=("SIZE",), whole=("SIZE", "SHA-256"))
    for file in bundle.files:
        files.add_row(plain(file.path), size(len(file.content)), plain(file.sha256[:_SHORT], "dim"))
    total = counted(len(bundle.files), "file")
    files.add_row(plain(total, "bold"), plain(size(bundle.size_bytes), "bold"), "")
    return files
