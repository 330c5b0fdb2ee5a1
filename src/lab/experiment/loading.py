"""An experiment's file becomes an `Experiment`: `extends`, `--set`, and errors that name the file and the key."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from lab.errors import UsageError, did_you_mean
from lab.experiment.sections import Experiment, PartChoice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Table = dict[str, Any]
PART_KEYS = ("loop", "attention", "loss", "data.source", "data.tokenizer")
EXCLUSIVE = (("batch", "packs", "tokens"), ("environment", "volume_gb", "network_volume"))
UNDECLARED = ("name", "description", "group")
COMMAND_LINE = "--set"


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
    declarations: tuple[Declaration, ...]


def load(name: str, folder: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read `name` (a name in `folder`, or a path to a TOML file) and everything it extends.

    Raises `UsageError` naming the file and the key for anything that no experiment may say.
    """
    chain = list(_chain(name, folder))
    table: Table = {}
    declarations: list[Declaration] = []
    previous: tuple[str, Experiment] | None = None
    for path, own in reversed(chain):
        table = _merged(table, {key: value for key, value in own.items() if key != "extends"})
        experiment = _validated(table, path.stem, str(path))
        if previous is not None:
            declarations.append(_declared(previous[0], previous[1], path.stem, experiment))
        previous = (path.stem, experiment)
    assert previous is not None
    if overrides:
        table = _merged(table, _overridden(overrides))
        changed = _validated(table, previous[0], COMMAND_LINE)
        declarations.append(_declared(previous[0], previous[1], COMMAND_LINE, changed))
        previous = (previous[0], changed)
    return Loaded(previous[1], tuple(path for path, _ in chain), tuple(declarations))


def names(folder: Path) -> list[str]:
    """The experiments that stand in `folder`, by name."""
    return sorted(path.stem for path in folder.glob("*.toml")) if folder.is_dir() else []


def flat(experiment: Experiment) -> dict[str, object]:
    """Every key of the resolved experiment as `section.key`, in file order."""
    return dict(_leaves(experiment.model_dump(mode="json", exclude_none=True)))


def _chain(name: str, folder: Path) -> Iterator[tuple[Path, Table]]:
    """Yield the named file, then what it extends, up to the root."""
    seen: list[Path] = []
    path = _locate(name, folder)
    while True:
        if path in seen:
            circle = " -> ".join(p.stem for p in [*seen, path])
            raise UsageError(f"{path}: extends goes in a circle: {circle}", "Let one of them stand on its own.")
        seen.append(path)
        own = _read(path)
        yield path, own
        parent = own.get("extends")
        if parent is None:
            return
        if not isinstance(parent, str):
            raise UsageError(f"{path}: extends must be the name of one experiment, not {parent!r}")
        path = _locate(parent, path.parent)


def _locate(name: str, folder: Path) -> Path:
    direct = folder / name
    if name.endswith(".toml"):
        from pathlib import Path as _Path

        for candidate in (_Path(name), direct):
            if candidate.is_file():
                return candidate
        raise UsageError(f"There is no experiment file {name}.")
    path = folder / f"{name}.toml"
    if "/" in name or "\\" in name or "\0" in name or not path.is_file():
        hint = did_you_mean(name, names(folder))
        raise UsageError(f"No experiment is called '{name}' in {folder}.", hint)
    return path


def _read(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})", "Save it as UTF-8.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is not valid TOML: {error}") from error


def _merged(base: Table, own: Table, where: str = "") -> Table:
    """Lay `own` over `base`: tables key by key, a part that is named anew and everything else as a whole."""
    result = dict(base)
    for section, one, other in EXCLUSIVE:
        if where == section:
            for kept, dropped in ((one, other), (other, one)):
                if kept in own and dropped not in own:
                    result.pop(dropped, None)
    for key, value in own.items():
        inner = f"{where}.{key}" if where else key
        old = result.get(key)
        if inner in PART_KEYS and isinstance(value, dict) and "name" not in value and isinstance(old, str):
            old = {"name": old}
        renamed = inner in PART_KEYS and isinstance(value, dict) and "name" in value
        if isinstance(value, dict) and isinstance(old, dict) and not renamed:
            result[key] = _merged(old, value, inner)
        elif where == "observers" and value is False:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def _overridden(overrides: Sequence[str]) -> Table:
    table: Table = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        parts = [part.strip() for part in key.split(".")]
        if not equals or not all(parts):
            raise UsageError(f"--set {text!r} is not key=value.", "Example: --set optimizer.learning_rate=1e-4")
        at = table
        for part in parts[:-1]:
            inner = at.setdefault(part, {})
            if not isinstance(inner, dict):
                raise UsageError(f"--set {text!r}: {part} is already set to a value.")
            at = inner
        at[parts[-1]] = _value(value.strip())
    return table


def _value(text: str) -> object:
    """Read the right side of `--set` as TOML; what is not TOML is a string, so names need no quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return parsed["value"] if list(parsed) == ["value"] else text


def _validated(table: Table, name: str, where: str) -> Experiment:
    if "name" in table:
        raise UsageError(f"{where}: name: an experiment's name is its file's name", "Remove the key.")
    try:
        return Experiment.model_validate({**table, "name": name})
    except ValidationError as error:
        raise _explained(error, where) from error


def _explained(error: ValidationError, where: str) -> UsageError:
    """Say every fault with its key, and the nearest valid key for each unknown one."""
    lines = []
    for fault in error.errors(include_url=False):
        location = [str(part) for part in fault["loc"]]
        key = ".".join(location) or "the experiment"
        if fault["type"] == "extra_forbidden":
            lines.append(f"{where}: {key}: unknown key. {did_you_mean(location[-1], _valid_keys(location[:-1]))}")
        else:
            lines.append(f"{where}: {key}: {fault['msg'].removeprefix('Value error, ')}")
    return UsageError("\n".join(lines))


def _valid_keys(location: Sequence[str]) -> list[str]:
    model: type[BaseModel] = Experiment
    for part in location:
        if part.isdigit() or part not in model.model_fields:
            continue
        model = _model_of(model.model_fields[part].annotation) or model
    return [key for key in model.model_fields if not (model is Experiment and key == "name")] + (
        ["extends"] if model is Experiment else []
    )


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation is not PartChoice:
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_of(inner)
        if found is not None:
            return found
    return None


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
