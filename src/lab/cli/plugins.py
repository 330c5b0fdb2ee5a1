"""`lab plugins`: what is installed, what each plugin offers, and what is broken and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli import groups

if TYPE_CHECKING:
    from rich.table import Table

    from lab.hookspecs import Part
    from lab.plugins import Plugin, Plugins

group = groups.new("Plugins: what is installed and what each brings.")


@group.command("list")
def list_plugins(
    options: Annotated[bool, typer.Option("--options", help="Show each part's options with their defaults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List every plugin with its parts, or why it is broken."""
    from lab.cli import foreign
    from lab.cli.output import plain, print_json, show
    from lab.plugins import Plugins
    from lab.settings import read_settings

    settings = read_settings()
    plugins = Plugins(settings.blocked_plugins, trace=settings.trace_plugins)
    if as_json:
        print_json(
            {"plugins": [_record(plugin, plugins) for plugin in plugins.installed], "commands": foreign.listed()}
        )
        return
    show(_parts_table(plugins, options=options))
    ours = next((plugin.owner for plugin in plugins.installed if not plugin.third_party), "")
    show(plain(f"\nA plugin without a source in brackets comes with {ours}.", style="dim"))
    commands = [f"lab {command['name']} ({command['from']})" for command in foreign.listed()]
    commands += [f"python -m {plugin.module} ({plugin.owner}), for stages" for plugin in _idle(plugins, runs=True)]
    sections = (("Commands", commands), ("Not loaded", _absent(plugins)), ("Watch out", _warnings(plugins)))
    for title, lines in sections:
        if lines:
            show("", plain(title, style="bold"), *(plain(f"  {line}") for line in lines))


@group.command("new")
def new_plugin(
    name: Annotated[str, typer.Argument(help="What experiments will call its part, as my-loss.")],
    kind: Annotated[str, typer.Option(help="attention, loss, loop, observer, source or tracker.")] = "loss",
    into: Annotated[Path | None, typer.Option(help="The new folder; lab-NAME by default.")] = None,
) -> None:
    """Start a plugin of your own.

    A package whose part works and keeps its contract.
    """
    from lab.cli import plugin_template
    from lab.cli.output import near, plain, show
    from lab.errors import UsageError, did_you_mean

    if kind not in plugin_template.KINDS:
        raise UsageError(f"--kind: there is no template of '{kind}'", did_you_mean(kind, plugin_template.KINDS))
    target = into or Path(f"lab-{name}")
    files = plugin_template.create(name, kind, target)
    show(*(plain(near(path)) for path in files), "")
    show(f"Next: pip install -e '{near(target)}[test]' && pytest {near(target)} && lab plugins")


def _record(plugin: Plugin, plugins: Plugins) -> dict[str, Any]:
    parts = [
        {
            "kind": kind,
            "name": part.name,
            "summary": part.summary,
            "target": part.target,
            "extra": part.extra,
            "options": _options(plugins, kind, part),
        }
        for kind, offered in plugin.parts.items()
        for part in offered
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


def _parts_table(plugins: Plugins, *, options: bool) -> Table:
    """By kind, as somebody who writes an experiment looks for a part."""
    from lab.cli.output import plain, table
    from lab.hookspecs import KINDS

    listing = table("KIND", "PART", "SUMMARY", "PLUGIN", whole=("KIND", "PART", "PLUGIN"), cut=("SUMMARY",))
    for kind in KINDS:
        title = kind
        for name, offers in sorted(plugins.offers(kind).items()):
            for plugin, part in offers:
                origin = f"{plugin.name} ({plugin.owner})" if plugin.third_party else plugin.name
                owner = plain(origin, style="" if plugin.third_party else "dim")
                listing.add_row(title, plain(name, style="bold"), plain(part.summary), owner)
                title = ""
                for option, default in (_options(plugins, kind, part) or {}).items() if options else ():
                    listing.add_row("", "", plain(f"{option} = {default}", style="dim"), "")
    return listing


def _options(plugins: Plugins, kind: str, part: Part) -> dict[str, str] | None:
    """The part's options with their defaults, or None when it has none or its model cannot be loaded."""
    from lab.errors import LabError

    try:
        model = plugins.options_model(kind, part.name)
    except LabError:
        return None
    if model is None:
        return None
    fields = model.model_fields.items()
    return {name: "(required)" if field.is_required() else repr(field.get_default()) for name, field in fields}


def _absent(plugins: Plugins) -> list[str]:
    absent = [plugin for plugin in plugins.installed if plugin.state != "loaded"]
    states = {"broken": "broken: ", "incompatible": "incompatible: "}
    return [f"{plugin.name} ({plugin.owner}): {states.get(plugin.state, '')}{plugin.error}" for plugin in absent]


def _warnings(plugins: Plugins) -> list[str]:
    from lab.hookspecs import KINDS

    lines = [f"{plugin.name} ({plugin.owner}): {line}" for plugin in plugins.installed for line in plugin.warnings]
    idle = [plugin for plugin in _idle(plugins, runs=False) if not plugin.warnings]
    lines += [f"{plugin.name} ({plugin.owner}) offers no part" for plugin in idle]
    for kind in KINDS:
        for name, offers in plugins.offers(kind).items():
            if len(offers) > 1:
                owners = " and ".join(f"{plugin.name} ({plugin.owner})" for plugin, _ in offers)
                lines.append(f"{kind} '{name}' is offered twice, so it cannot be used: {owners}")
    return lines


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
