"""`lab doctor`: whether this machine is ready and, with --backend, whether that cloud is what it is believed to be."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli import completion


def doctor(
    backend: Annotated[
        str | None,
        typer.Option(
            help="Check this backend live; on a cloud that costs a few cents.", autocompletion=completion.backends
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="EXPERIMENT",
            help="Prepare its data from the real source and count it.",
            autocompletion=completion.experiments,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before money is spent.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check this machine: Python, torch, disk, keys, plugins.

    Exit code 1 when something needs a person. With --backend the real service is tried instead: its answers are saved,
    and nothing is left behind. With --data the counts of a real source are held against published ones.
    """
    from lab.cli import doctor_checks, doctor_data
    from lab.settings import read_settings

    settings = read_settings()
    if data is not None:
        checks = doctor_data.counted(data, settings)
    else:
        checks = (
            doctor_checks.live(backend, settings, yes=yes) if backend is not None else doctor_checks.local(settings)
        )
    raise typer.Exit(doctor_checks.show(checks, as_json=as_json))
