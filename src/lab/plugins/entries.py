"""Entry points of what is installed, one distribution after the other: damaged metadata costs only its own."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution, distributions
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN = "unknown"
FILE = "entry_points.txt"


@dataclass(frozen=True)
class Entry:
    """One entry point, or the file of a distribution that offers some and cannot be read."""

    name: str
    """What is offered; of a file that cannot be read the distribution's name."""
    distribution: str
    version: str
    value: str
    """As "module" or "module:attribute"; empty for a file that cannot be read."""
    fault: str | None = None
    """Why nothing can be loaded."""
    point: EntryPoint | None = None

    @property
    def module(self) -> str:
        """The module that is named; whatever else is written there stays as it is."""
        return self.value.partition(":")[0].partition("[")[0].strip()

    @property
    def owner(self) -> str:
        """Its distribution and version, as errors name it."""
        return f"{self.distribution} {self.version}"


def entries(group: str) -> list[Entry]:
    """Every entry point of this group, the damaged ones with their fault; nothing is imported, nothing is raised."""
    found: list[Entry] = []
    seen: set[str] = set()
    for installed in distributions():
        text = _text(installed)
        if f"[{group}]" not in text:
            continue
        name, version = _origin(installed)
        if name != UNKNOWN and (name in seen or _is_hidden(name, text)):
            continue
        seen.add(name)
        found += _of(installed, group, name, version)
    return found


def _of(installed: Distribution, group: str, name: str, version: str) -> Iterator[Entry]:
    try:
        points = [point for point in installed.entry_points if point.group == group]
    except Exception as error:  # each version of importlib.metadata fails in its own way
        yield Entry(name, name, version, "", f"its {FILE} cannot be read: {type(error).__name__}: {error}")
        return
    for point in points:
        named = EntryPoint.pattern.match(point.value)
        fault = None if named else f"its {FILE} names {point.value!r} for it, which is no module"
        yield Entry(point.name, name, version, point.value, fault, point)


def _text(installed: Distribution) -> str:
    """Its entry points as they are written; what is no text in UTF-8 is replaced."""
    try:
        return installed.read_text(FILE) or ""
    except UnicodeDecodeError as error:
        return bytes(error.object).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def _origin(installed: Distribution) -> tuple[str, str]:
    """Name and version; a folder without metadata still tells them by its own name."""
    try:
        told = installed.metadata
        name, version = told["Name"], told["Version"]
    except Exception:  # damaged in whatever way
        name, version = None, None
    folder = getattr(getattr(installed, "_path", None), "name", "").removesuffix(".dist-info")
    folder_name, _, folder_version = folder.rpartition("-")
    return str(name or folder_name or UNKNOWN), str(version or folder_version or UNKNOWN)


def _is_hidden(name: str, text: str) -> bool:
    """Whether another one of this name, with other entry points, stands before it on the search path."""
    try:
        return _text(distribution(name)) != text
    except (PackageNotFoundError, ValueError):
        return False
