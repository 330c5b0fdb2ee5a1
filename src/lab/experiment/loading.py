"""An experiment's file becomes an `Experiment`: `extends`, `--set`, and errors that name the file and the key."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lab.errors import UsageError
from lab.experiment.bounds import read_bounded, require_bounded
from lab.experiment.faults import explain
from lab.experiment.finding import locate
from lab.experiment.merging import Table, merged, override
from lab.experiment.values import switched_off
from lab.experiment.whole import Experiment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

UNDECLARED = ("name", "description", "group")
COMMAND_LINE = "--set"
LONGEST_CHAIN = 100


@dataclass(frozen=True)
class Change:
    """One key that a child sets differently from what it extends; None means absent."""

    key: str
    before: object
    after: object


@dataclass(frozen=True)
class Declaration:
    """What one link of the `extends` chain (or `--set`) changes in what it stands on."""

    base: str
    child: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Loaded:
    """An experiment with where it came from and what it declares to change, nearest change last."""

    experiment: Experiment
    files: tuple[Path, ...]
    """The file itself, then what it extends, up to the root."""
    declarations: tuple[Declaration, ...]
    origins: Mapping[str, str]
    """The file (or `--set`) that set each key last."""

    def where(self, key: str) -> str:
        """Which file, or `--set`, an error about this key should name."""
        while key:
            found = [place for known, place in self.origins.items() if known == key or known.startswith(f"{key}.")]
            if found:
                return found[-1]
            key = key.rpartition(".")[0]
        return str(self.files[0])


def load(name: str, folder: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read `name` and everything it extends: a path to a TOML file, or a name in `folder` or among those lab brings.

    Raises `UsageError` naming the file and the key for anything that no experiment may say.
    """
    changes = [override(text) for text in overrides]
    for change in changes:
        require_bounded(change, COMMAND_LINE)
    return _resolved(list(_chain(name, folder)), changes)


def flat(experiment: Experiment) -> dict[str, object]:
    """Every key of the resolved experiment as `section.key`, in file order; what is empty is absent.

    A part without options, which an experiment may only have or not, is true, as it is typed.
    """
    present = {
        key: value for key, value in experiment.model_dump(mode="json", exclude_none=True).items() if value != {}
    }
    return {key: True if value == {} else value for key, value in _leaves(present) if value != []}


def _resolved(chain: Sequence[tuple[Path, Table]], overrides: Sequence[Table]) -> Loaded:
    layers = [(path.stem, path.stem, str(path), [own]) for path, own in reversed(chain)]
    if overrides:
        layers.append((COMMAND_LINE, chain[0][0].stem, COMMAND_LINE, list(overrides)))
    table: Table = {}
    origins: dict[str, str] = {}
    steps: list[tuple[str, Experiment]] = []
    for child, name, place, tables in layers:
        for own in tables:
            _refuse_idle_switches(table, own, place)
            table = merged(table, own)
            for key, _ in _leaves(own):
                origins.pop(key, None)
                origins[key] = place
        steps.append((child, _validated(table, name, place)))
    declared = tuple(_declared(*before, *after) for before, after in itertools.pairwise(steps))
    return Loaded(steps[-1][1], tuple(path for path, _ in chain), declared, origins)


def _chain(name: str, folder: Path) -> Iterator[tuple[Path, Table]]:
    """Yield the named file, then what it extends, up to the root."""
    seen: list[Path] = []
    path = locate(name, (folder,))
    while True:
        if path in seen:
            circle = " -> ".join(p.stem for p in [*seen, path])
            raise UsageError(f"{path}: extends: goes in a circle: {circle}", "Let one of them stand on its own.")
        if len(seen) == LONGEST_CHAIN:
            raise UsageError(f"{path}: extends: is the end of a chain of more than {LONGEST_CHAIN} experiments.")
        seen.append(path)
        own = _read(path)
        parent = own.pop("extends", None)
        yield path, own
        if parent is None:
            return
        if not isinstance(parent, str):
            raise UsageError(f"{path}: extends: must be the name of one experiment, not {parent!r}")
        path = locate(parent, (path.parent, folder), f"{path}: extends: ")


def _read(path: Path) -> Table:
    try:
        table = tomllib.loads(read_bounded(path).decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})", "Save it as UTF-8.") from error
    except ValueError as error:  # also a number of thousands of digits
        raise UsageError(f"{path}: is not valid TOML: {error}") from error
    except RecursionError:
        raise UsageError(f"{path}: its tables are nested too deeply.") from None
    require_bounded(table, str(path))
    return table


def _validated(table: Table, name: str, where: str) -> Experiment:
    if "name" in table:
        raise UsageError(f"{where}: name: an experiment's name is its file's name", "Remove the key.")
    try:
        return Experiment.model_validate({**table, "name": name})
    except ValidationError as error:
        raise UsageError("\n".join(f"{where}: {line}" for line in explain(error, Experiment))) from error


def _refuse_idle_switches(base: Table, own: Table, where: str) -> None:
    """`false` switches off an observer that the base has; where it has none, the person meant something else.

    Trackers are not judged here: which are on without being named is not known here.
    """
    observers, known = own.get("observers"), base.get("observers")
    for name, value in observers.items() if isinstance(observers, dict) else ():
        if switched_off(value) and not (isinstance(known, dict) and name in known):
            raise UsageError(
                f"{where}: observers.{name}: is {str(value).lower()}, and there is no such observer to switch off",
                f"Remove it, or give it a table of options: {name} = {{ ... }}",
            )


def _leaves(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def _declared(base: str, before: Experiment, child: str, after: Experiment) -> Declaration:
    old, new = flat(before), flat(after)
    keys = [key for key in dict.fromkeys([*old, *new]) if key not in UNDECLARED and old.get(key) != new.get(key)]
    return Declaration(base, child, tuple(Change(key, old.get(key), new.get(key)) for key in keys))
