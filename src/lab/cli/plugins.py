"""`lab plugins`: what is installed, what each plugin offers, and what is broken and why."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lab.cli import completion, groups

group = groups.new("Plugins: what is installed and what each brings.")


@group.command("list")
def list_plugins(
    options: Annotated[bool, typer.Option("--options", help="Show each part's options with their defaults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List every plugin with its parts, or why it is broken."""
    from lab.cli import plugins_view
    from lab.cli.output import print_json
    from lab.plugins import Plugins
    from lab.settings import read_settings

    settings = read_settings()
    plugins = Plugins(settings.blocked_plugins, trace=settings.trace_plugins)
    if as_json:
        print_json(plugins_view.record(plugins))
    else:
        plugins_view.show(plugins, options=options)


@group.command("new")
def new_plugin(
    name: Annotated[str, typer.Argument(help="What experiments will call its part, as my-loss.")],
    kind: Annotated[
        str,
        typer.Option(
            help="attention, backend, loss, loop, observer, source or tracker.", autocompletion=completion.kinds
        ),
    ] = "loss",
    into: Annotated[Path | None, typer.Option(help="The new folder; lab-NAME by default.")] = None,
) -> None:
    """Start a plugin of your own.

    A package whose part works and keeps its contract.
    """
    from lab.cli import plugin_template
    from lab.cli.output import near, plain, show
    from lab.errors import UsageError, did_you_mean
    from lab.plugins import load
    from lab.settings import read_settings

    if kind not in plugin_template.KINDS:
        raise UsageError(f"--kind: there is no template of '{kind}'", did_you_mean(kind, plugin_template.KINDS))
    target = into or Path(f"lab-{name}")
    files = plugin_template.create(name, kind, target, load(read_settings()))
    show(*(plain(near(path)) for path in files), "")
    package, tests = shlex.quote(f"{near(target)}[test]"), shlex.quote(near(target))
    show(f"Next: pip install -e {package} && pytest {tests} && lab plugins")
