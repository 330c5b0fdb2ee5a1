"""From what a person types to a rental and the backend that can act on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.cli.output import console, plain
from lab.errors import LabError, UsageError, did_you_mean
from lab.experiment import PartChoice
from lab.rental import archive, naming
from lab.rental.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.contracts import Receipt
    from lab.rental import RentedBackend
    from lab.rental.facts import Facts
    from lab.rental.survey import Survey
    from lab.settings import Settings


@dataclass(frozen=True)
class Found:
    """One rental, and who can act on it."""

    backend: RentedBackend
    run_id: str

    @property
    def facts(self) -> Facts:
        """What its journal says now."""
        return self.backend.facts(self.run_id)

    @property
    def receipt(self) -> Receipt:
        """What the backend knows it by."""
        from lab.contracts import Receipt

        return Receipt(self.backend.provider.name, self.run_id, self.facts.machine_id or self.run_id)


def backends() -> list[RentedBackend]:
    """Every installed backend that rents, ready to act; one that cannot be built is said and left out."""
    from lab.plugins import load
    from lab.rental.backend import RentedBackend
    from lab.settings import read_settings

    plugins = load(read_settings())
    built = []
    for name in plugins.parts("backend"):
        try:
            backend = plugins.build("backend", PartChoice(name=name))
        except LabError as error:
            say(f"{name}: {error.what}")
            continue
        if isinstance(backend, RentedBackend):
            backend.say = say
            built.append(backend)
    return built


def say(text: str) -> None:
    """Tell on standard error what is being done."""
    console(stderr=True).print(plain(text, "dim"), soft_wrap=True)


def surveys() -> list[Survey]:
    """What each renting backend holds; one without a key is left out where nothing was ever rented from it."""
    from lab.rental.survey import survey

    found = []
    for backend in backends():
        try:
            backend.provider.account()
        except ProviderError as error:
            if not any(backend.facts(run).provider == backend.provider.name for run in archive.every(backend.store)):
                say(f"{backend.provider.name}: {error.message}")
                continue
        found.append(survey(backend))
    return found


def find(reference: str) -> Found:
    """The one rental that `reference` names: a run's id or the start of it, a machine's id, a path."""
    from lab.settings import read_settings

    settings = read_settings()
    if not reference:
        raise UsageError("A rental is named by its run's id, the start of it, its machine's id, latest, or a path.")
    known = list(archive.every(settings.store_folder))
    candidates = backends()
    matches = sorted(set(_named(reference, known, settings, candidates)))
    if not matches:
        raise UsageError(f"No rental is called '{reference}'.", did_you_mean(reference, known))
    if len(matches) > 1:
        raise UsageError(f"'{reference}' names {len(matches)} rentals: {', '.join(matches)}.", "Say which.")
    for backend in candidates:
        if backend.facts(matches[0]).provider == backend.provider.name:
            return Found(backend, matches[0])
    raise UsageError(f"{matches[0]}: the backend that rented it is not installed.", "See: lab plugins")


def _named(
    reference: str, known: Sequence[str], settings: Settings, candidates: Sequence[RentedBackend]
) -> Iterator[str]:
    if "/" in reference:
        yield from _at(Path(os.path.expanduser(reference)).absolute(), known, settings)
        return
    if reference == "latest" and known and candidates:
        yield max(known, key=lambda run_id: candidates[0].facts(run_id).planned)
        return
    exact = [run_id for run_id in known if run_id == reference]
    yield from exact or [run_id for run_id in known if run_id.startswith(reference)]
    for run_id in known:
        facts = candidates[0].facts(run_id) if candidates else None
        if facts is not None and reference in (facts.machine_id, facts.name, *facts.extras):
            yield run_id


def _at(path: Path, known: Sequence[str], settings: Settings) -> Iterator[str]:
    """A path in the rental's folder or in the run directory."""
    for folder in (path, path.parent):
        inside = folder.parent in (naming.rentals_folder(settings.store_folder), settings.runs_folder)
        if folder.name in known and inside:
            yield folder.name
