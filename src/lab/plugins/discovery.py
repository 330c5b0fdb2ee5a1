"""Which plugins are installed, what each offers, and why one cannot be used; a broken one hurts nobody."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import TYPE_CHECKING

import pluggy

from lab import hookspecs
from lab.errors import did_you_mean
from lab.hookspecs import GROUP, HOOKS, INTERFACE, Part
from lab.plugins.containing import State, Unusable, contained, reason
from lab.plugins.entries import entries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from types import ModuleType

    from lab.plugins.entries import Entry

LAB = "llm-training-lab"


@dataclass(frozen=True)
class Plugin:
    """One entry point of the group `lab`: where it comes from, what it offers, or why it offers nothing."""

    name: str
    distribution: str
    version: str
    module: str
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    """By kind."""
    state: State = "loaded"
    error: str | None = None
    """Why it is not loaded, in one line."""
    warnings: tuple[str, ...] = ()

    @property
    def third_party(self) -> bool:
        """Whether it does not come with lab itself."""
        return self.distribution != LAB

    @property
    def owner(self) -> str:
        """Its distribution and version, as errors name it."""
        return f"{self.distribution} {self.version}"


class Incompatible(Unusable):
    """The plugin was written for another lab."""

    state: State = "incompatible"


def discover(blocked: Collection[str] = (), *, trace: bool = False) -> tuple[Plugin, ...]:
    """Load every installed plugin that is not blocked; ours first, then by name."""
    found = [_loaded(entry, blocked, trace) for entry in entries(GROUP)]
    return tuple(sorted(found, key=lambda plugin: (plugin.third_party, plugin.name, plugin.distribution)))


def _loaded(entry: Entry, blocked: Collection[str], trace: bool) -> Plugin:
    plugin = functools.partial(Plugin, entry.name, entry.distribution, entry.version, entry.module)
    if entry.name in blocked:
        return plugin(state="blocked", error="blocked by LAB_BLOCKED_PLUGINS")
    try:
        if entry.point is None or entry.fault:
            raise Unusable(entry.fault)
        _check_requirement(entry, entry.distribution)
        with contained() as moved:
            module = entry.point.load()
            _check_interface(module, entry.distribution)
            parts = _offered(module, trace)
        return plugin(parts, warnings=(*_forgotten(module), *moved))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin's module may do anything, SystemExit included
        state = error.state if isinstance(error, Unusable) else "broken"
        return plugin(state=state, error=reason(error))


def _requires(entry: Entry) -> list[str]:
    try:
        return (entry.point.dist.requires if entry.point and entry.point.dist else None) or []
    except Exception:  # metadata damaged in whatever way
        return []


def _check_requirement(entry: Entry, distribution: str) -> None:
    for line in _requires(entry):
        if "lab" not in line.lower() or distribution == LAB:
            continue
        from packaging.requirements import Requirement
        from packaging.utils import canonicalize_name

        requirement = Requirement(line)
        if canonicalize_name(requirement.name) != LAB:
            continue
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and not requirement.specifier.contains(version(LAB), prereleases=True):
            wanted = f"'{LAB}{requirement.specifier}'"
            raise Incompatible(
                f"needs {LAB} {requirement.specifier}, but {version(LAB)} is installed. "
                f"Run: pip install {wanted}, or install another version of {distribution}."
            )


def _check_interface(module: object, distribution: str) -> None:
    wanted = getattr(module, "LAB_INTERFACE", INTERFACE)
    if wanted != INTERFACE:
        older = isinstance(wanted, int) and wanted < INTERFACE
        raise Incompatible(
            f"was written for plugin interface {wanted}, but {LAB} {version(LAB)} has {INTERFACE}. "
            f"Run: pip install --upgrade {distribution if older else LAB}"
        )


def _offered(module: ModuleType, trace: bool) -> dict[str, tuple[Part, ...]]:
    manager = pluggy.PluginManager(GROUP)  # one each, so that no plugin is left half wired among others
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(module)
    except pluggy.PluginValidationError as error:
        raise Unusable(f"a hook takes no arguments: {error.args[-1]}") from error
    for caller in manager.get_hookcallers(module) or ():
        if not caller.has_spec():
            raise Unusable(f"there is no hook '{caller.name}'. {did_you_mean(caller.name, HOOKS.values())}")
    parts: dict[str, tuple[Part, ...]] = {}
    for kind, hook in HOOKS.items():
        for implementation in getattr(manager.hook, hook).get_hookimpls():
            call = f"{module.__name__}.{hook}()"
            parts[kind] = _checked(hook, _traced(call, implementation.function) if trace else implementation.function())
    return parts


def _traced(call: str, function: Callable[[], object]) -> object:
    """The hook's answer, printed with its call; of one that raises, what it raised."""
    try:
        answer = function()
    except BaseException as error:
        print(f"{call} raises {reason(error)}", file=sys.stderr)  # noqa: T201 - asked for
        raise
    print(f"{call} -> {answer!r}", file=sys.stderr)  # noqa: T201 - asked for
    return answer


def _checked(hook: str, answer: object) -> tuple[Part, ...]:
    if not isinstance(answer, (list, tuple)) or not all(isinstance(part, Part) for part in answer):
        raise Unusable(f"{hook}() returned {answer!r}, not a list of Part")
    names = [part.name for part in answer]
    for part in answer:
        _check_fields(hook, part)
        if names.count(part.name) > 1:
            raise Unusable(f"{hook}() offers '{part.name}' twice")
    return tuple(answer)


def _check_fields(hook: str, part: Part) -> None:
    if not (isinstance(part.name, str) and part.name.strip()):
        raise Unusable(f"{hook}() offers a part without a name")
    for one in fields(part):
        value = getattr(part, one.name)
        if not isinstance(value, str) and (value is not None or one.default is not None):
            raise Unusable(f"{hook}() gives '{part.name}' the {one.name} {value!r}, which is no text")
    for text in filter(None, (part.target, part.options)):
        if not all(text.partition(":")):
            raise Unusable(f"{hook}() names '{text}' for '{part.name}', which is not \"module:attribute\"")


def _forgotten(module: ModuleType) -> Iterator[str]:
    """Functions named like a hook that pluggy will never call."""
    for hook in HOOKS.values():
        function = getattr(module, hook, None)
        if callable(function) and not hasattr(function, f"{GROUP}_impl"):
            yield f"{hook}() has no @hookimpl above it, so it is never called"
