"""How one resolved experiment is shown: what it is, what it changes, what it says, which parts it needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lab.cli.output import console, near, plain, table
from lab.cli.output import show as output

if TYPE_CHECKING:
    from rich.table import Table

    from lab.experiment import Experiment, Loaded
    from lab.plugins import Plugins

Record = dict[str, Any]
PARTS = ("loop", "attention", "loss")
GAP = 3


def record(loaded: Loaded, experiment: Experiment, plugins: Plugins | None = None) -> Record:
    """Everything that is shown, as plain values; the parts only when plugins were asked."""
    from lab.experiment import fingerprint

    return {
        "name": experiment.name,
        "description": experiment.description,
        "files": [str(path) for path in loaded.files],
        "fingerprint": fingerprint(experiment),
        "declarations": loaded.declarations,
        "experiment": experiment.model_dump(mode="json", exclude_none=True),
        "parts": None if plugins is None else _parts(experiment, plugins),
    }


def show(record: Record) -> None:
    """Print the record for a person."""
    checked = record["parts"] is not None
    title = Text.assemble((record["name"], "bold"), " is a valid experiment" if checked else "")
    files = " extends ".join(map(near, record["files"]))
    output(title, plain(record["description"]), plain(files, style="dim"), "")
    _show_changes(record["declarations"])
    output(_resolved(record["experiment"]), "")
    if checked and record["parts"]:
        output(_parts_table(record["parts"]), "")
    output(Text.assemble(("fingerprint  ", "dim"), record["fingerprint"]))
    if lines := list(dict.fromkeys(part["requirement"] for part in record["parts"] or () if part["requirement"])):
        output(Text.assemble(("elsewhere    ", "dim"), f"pip install {' '.join(map(repr, lines))}"))
    for part in record["parts"] or ():
        if part["missing"]:
            missing = f"{part['kind']} {part['name']} needs {', '.join(part['missing'])}, not installed here"
            output(plain(f"{missing}: {part['install']}", style="yellow"))


def value(setting: object) -> str:
    """One setting as a person writes it."""
    if setting is None:
        return "-"
    if isinstance(setting, bool):
        return str(setting).lower()
    if isinstance(setting, list):
        return ", ".join(map(value, setting)) or "none"
    if isinstance(setting, dict):
        return ", ".join(f"{key} = {_inner(inner)}" for key, inner in setting.items()) or "on"
    if isinstance(setting, int) and abs(setting) >= 10_000 and setting % 1000 == 0:
        return f"{setting:_}"
    return str(setting)


def _inner(setting: object) -> str:
    return f"[{value(setting)}]" if isinstance(setting, list) else value(setting)


def _show_changes(declarations: Any) -> None:
    if not declarations:
        return
    changes = table("DECLARED CHANGE", "KEY", "BEFORE", "", "AFTER", whole=("DECLARED CHANGE", "KEY", ""))
    for declaration in declarations:
        link = f"{declaration.base} -> {declaration.child}"
        for change in declaration.changes:
            before, after = plain(value(change.before), style="dim"), plain(value(change.after), style="bold")
            changes.add_row(plain(link), plain(change.key), before, plain("->", style="dim"), after)
            link = ""
        if not declaration.changes:
            changes.add_row(plain(link), plain("nothing", style="dim"))
    output(changes, "")


def _resolved(experiment: Record) -> Table:
    """In a terminal one row a table of the experiment, so that it fits a screen; piped one line a key."""
    settings = table("SETTING", "VALUE", whole=("SETTING",))
    terminal = sys.stdout.isatty()
    width = console().width - max(map(len, experiment)) - GAP
    for key, inner in experiment.items():
        if key in ("name", "description") or inner in ({}, []):
            continue
        single = not isinstance(inner, dict) or key in PARTS
        if single:
            settings.add_row(plain(key, style="dim" if terminal else ""), plain(_part(inner)))
        elif terminal:
            settings.add_row(plain(key, style="dim"), _phrases(inner, width))
        else:
            for name, setting in inner.items():
                settings.add_row(f"{key}.{name}", plain(_part(setting)))
    return settings


def _phrases(section: Record, width: int) -> Text:
    """`layers 4   width 256   heads 4`, broken between settings only."""
    lines = [Text()]
    for name, setting in section.items():
        phrase = Text.assemble((f"{name} ", "dim"), _part(setting))
        if lines[-1] and len(lines[-1]) + len(phrase) + GAP > width:
            lines.append(Text())
        lines[-1].append(" " * GAP if lines[-1] else "").append_text(phrase)
    return Text("\n").join(lines)


def _part(setting: object) -> str:
    """A part and its options on one line, as `flash-varlen (provider = fa3)`."""
    if isinstance(setting, dict) and "name" in setting:
        options = {key: inner for key, inner in setting.items() if key != "name"}
        return f"{setting['name']} ({value(options)})" if options else str(setting["name"])
    return value(setting)


def _parts(experiment: Experiment, plugins: Plugins) -> list[Record]:
    from lab.plugins import chosen, needs
    from lab.plugins.origin import requirement

    rows = []
    for kind, key, choice in chosen(experiment):
        plugin, part = plugins.find(kind, choice.name)
        missing = needs.missing(plugin, part)
        rows.append(
            {
                "kind": kind,
                "key": key,
                "name": choice.name,
                "plugin": plugin.name,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "third_party": plugin.third_party,
                "requirement": requirement(plugin.distribution) if plugin.third_party else None,
                "missing": missing,
                "install": needs.command(plugin, part) if missing else None,
            }
        )
    return rows


def _parts_table(parts: list[Record]) -> Table:
    listing = table("PART", "", "PLUGIN", "FROM", whole=("PART", "", "PLUGIN", "FROM"))
    for part in parts:
        origin = plain(f"{part['distribution']} {part['version']}", style="bold" if part["third_party"] else "dim")
        listing.add_row(part["kind"], plain(part["name"]), plain(part["plugin"]), origin)
    return listing
