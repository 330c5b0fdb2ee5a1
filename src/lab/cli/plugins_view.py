"""How the installed plugins are shown: their parts by kind, their commands, and what is wrong with which."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lab.cli import foreign
from lab.cli.output import plain, table
from lab.cli.output import show as output
from lab.errors import LabError
from lab.hookspecs import KINDS
from lab.plugins import NoDefault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table
    from rich.text import Text

    from lab.hookspecs import Part
    from lab.plugins import Plugin, Plugins

LONGEST_DEFAULT = 50
"""Longer ones would push a line beyond 80 columns; `--json` holds them whole."""


def record(plugins: Plugins) -> dict[str, Any]:
    """Everything as plain values."""
    return {"plugins": [_record(plugin, plugins) for plugin in plugins.installed], "commands": foreign.listed()}


def show(plugins: Plugins, *, options: bool) -> None:
    """Print what there is for a person: a table of parts, or each part with its options."""
    if options:
        output(*_parts_with_options(plugins))
    else:
        output(_parts_table(plugins))
    ours = next((plugin.owner for plugin in plugins.installed if not plugin.third_party), "")
    output(plain(f"\nA plugin without a source in brackets comes with {ours}.", style="dim"))
    commands = [f"lab {command['name']} ({command['from']})" for command in foreign.listed()]
    commands += [f"python -m {plugin.module} ({plugin.owner}), for stages" for plugin in _idle(plugins, runs=True)]
    sections = (("Commands", commands), ("Not loaded", _absent(plugins)), ("Watch out", list(_warnings(plugins))))
    for title, lines in sections:
        if lines:
            output("", plain(title, style="bold"), *(plain(f"  {line}") for line in lines))


def _record(plugin: Plugin, plugins: Plugins) -> dict[str, Any]:
    parts = [
        {
            "kind": kind,
            "name": part.name,
            "summary": part.summary,
            "target": part.target,
            "extra": part.extra,
            "options": options,
            "error": fault,
        }
        for kind, offered in plugin.parts.items()
        for part in offered
        for options, fault in [_options(plugins, kind, part)]
    ]
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "third_party": plugin.third_party,
        "state": plugin.state,
        "error": plugin.error,
        "warnings": plugin.warnings,
        "parts": parts,
    }


def _parts_table(plugins: Plugins) -> Table:
    """By kind, as somebody who writes an experiment looks for a part."""
    listing = table("KIND", "PART", "SUMMARY", "PLUGIN", whole=("KIND", "PART", "PLUGIN"), cut=("SUMMARY",))
    before = ""
    for kind, plugin, part in _parts(plugins):
        owner = plain(_origin(plugin), style="" if plugin.third_party else "dim")
        listing.add_row(kind if kind != before else "", plain(part.name, style="bold"), plain(part.summary), owner)
        before = kind
    return listing


def _parts_with_options(plugins: Plugins) -> Iterator[Text]:
    """Each part in a paragraph: what it is and whose, then a line for each option."""
    from rich.text import Text

    for number, (kind, plugin, part) in enumerate(_parts(plugins)):
        if number:
            yield Text()
        yield Text.assemble(f"{kind} ", plain(part.name, "bold"), plain(f"   of plugin {_origin(plugin)}", "dim"))
        yield plain(f"  {part.summary}")
        options, fault = _options(plugins, kind, part)
        if fault:
            yield plain(f"    {fault}", "dim")
        for option, default in (options or {}).items():
            short = default if len(default) <= LONGEST_DEFAULT else f"{default[:LONGEST_DEFAULT]} ..."
            yield plain(f"    {option} = {short}", "dim")


def _parts(plugins: Plugins) -> Iterator[tuple[str, Plugin, Part]]:
    for kind in KINDS:
        for _, offers in sorted(plugins.offers(kind).items()):
            yield from ((kind, plugin, part) for plugin, part in offers)


def _origin(plugin: Plugin) -> str:
    return f"{plugin.name} ({plugin.owner})" if plugin.third_party else plugin.name


def _options(plugins: Plugins, kind: str, part: Part) -> tuple[dict[str, str] | None, str | None]:
    """The part's options with their defaults as TOML writes them, None for a part without; and why none can be told."""
    if part.options is None:
        return None, None
    try:
        return {name: _toml(default) for name, default in plugins.defaults(kind, part.name).items()}, None
    except LabError as error:
        return None, error.what


def _toml(default: object) -> str:
    """A default as an experiment would say it; TOML has no word for what is left open."""
    if isinstance(default, NoDefault):
        return str(default.value)
    return "(not set)" if default is None else json.dumps(default, ensure_ascii=False)


def _absent(plugins: Plugins) -> list[str]:
    absent = [plugin for plugin in plugins.installed if plugin.state != "loaded"]
    states = {"broken": "broken: ", "incompatible": "incompatible: "}
    return [f"{plugin.name} ({plugin.owner}): {states.get(plugin.state, '')}{plugin.error}" for plugin in absent]


def _warnings(plugins: Plugins) -> Iterator[str]:
    for plugin in plugins.installed:
        yield from (f"{plugin.name} ({plugin.owner}): {line}" for line in plugin.warnings)
    idle = [plugin for plugin in _idle(plugins, runs=False) if not plugin.warnings]
    yield from (f"{plugin.name} ({plugin.owner}) offers no part" for plugin in idle)
    for kind in KINDS:
        for name, offers in plugins.offers(kind).items():
            if len(offers) > 1:
                owners = " and ".join(f"{plugin.name} ({plugin.owner})" for plugin, _ in offers)
                yield f"{kind} '{name}' is offered twice, so it cannot be used: {owners}"
    yield from foreign.unreachable()


def _idle(plugins: Plugins, *, runs: bool) -> list[Plugin]:
    """The plugins without a part: those whose module is a command that stages can run, or those that do nothing."""
    loaded = [plugin for plugin in plugins.installed if plugin.state == "loaded"]
    return [plugin for plugin in loaded if not any(plugin.parts.values()) and _is_command(plugin.module) is runs]


def _is_command(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(f"{module}.__main__") is not None
    except ModuleNotFoundError:  # a module that is no package
        return False
