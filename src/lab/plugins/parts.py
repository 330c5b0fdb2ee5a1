"""Finding parts by name: what is offered, the class behind a name, its options, and the errors of each."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from lab.errors import LabError, UsageError, did_you_mean
from lab.plugins import checking, needs
from lab.plugins.discovery import Plugin, discover, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lab.experiment import Experiment, PartChoice
    from lab.hookspecs import Part
    from lab.settings import Settings

logger = logging.getLogger(__name__)


class UnknownPart(UsageError):
    """No installed plugin offers a part of this name, or two do."""


class BrokenPart(LabError):
    """A plugin offers the part, but its class cannot be loaded."""


class MissingLibrary(BrokenPart):
    """The part needs a library that is not installed."""


class Plugins:
    """Every installed plugin, and the parts of those that could be loaded."""

    def __init__(self, blocked: Collection[str] = (), *, trace: bool = False) -> None:
        self.installed: tuple[Plugin, ...] = discover(blocked, trace=trace)

    def parts(self, kind: str) -> dict[str, Part]:
        """The parts of one kind, by name."""
        return {name: offers[0][1] for name, offers in self.offers(kind).items()}

    def offers(self, kind: str) -> dict[str, list[tuple[Plugin, Part]]]:
        """Who offers each name; more than one is an error, but only once the name is used."""
        found: dict[str, list[tuple[Plugin, Part]]] = {}
        for plugin in self.installed:
            for part in plugin.parts.get(kind, ()):
                found.setdefault(part.name, []).append((plugin, part))
        return found

    def find(self, kind: str, name: str) -> tuple[Plugin, Part]:
        """The one plugin and part of this name. Raises `UnknownPart` with the nearest name, or naming both owners."""
        offers = self.offers(kind).get(name, [])
        if not offers:
            what = f"no {kind} is called '{name}'"
            raise UnknownPart(what, " ".join([did_you_mean(name, self.parts(kind)), *self._absent(name)]))
        if len(offers) > 1:
            owners = " and ".join(f"{plugin.name} ({plugin.owner})" for plugin, _ in offers)
            do = f"Uninstall one, or block one: LAB_BLOCKED_PLUGINS={offers[-1][0].name}"
            raise UnknownPart(f"two plugins offer a {kind} called '{name}': {owners}", do)
        return offers[0]

    def resolve(self, kind: str, name: str) -> type:
        """The part's class, imported now. Raises `UnknownPart`, `BrokenPart` or `MissingLibrary`."""
        plugin, part = self.find(kind, name)
        return _imported(kind, plugin, part, part.target)  # type: ignore[no-any-return]

    def options(self, kind: str, choice: PartChoice, key: str = "") -> BaseModel | None:
        """The options of a choice, checked by the part's own model; None for a part that takes none.

        Raises `UsageError` naming the option as it stands below `key`, such as "data.source".
        """
        model = self.options_model(kind, choice.name)
        return checking.validated(model, kind, choice, key or kind)

    def options_model(self, kind: str, name: str) -> type[BaseModel] | None:
        """The part's options model, or None when it takes no options."""
        plugin, part = self.find(kind, name)
        if part.options is None:
            return None
        model = _imported(kind, plugin, part, part.options)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise BrokenPart(f"{_owned(kind, plugin, part)}: {part.options} is not a pydantic model", _report(plugin))
        return model

    def build(self, kind: str, choice: PartChoice, key: str = "") -> Any:
        """The part itself: its class, called with its options."""
        options = self.options(kind, choice, key)
        return self.resolve(kind, choice.name)(options)

    def check(self, experiment: Experiment, where: Callable[[str], str] | None = None) -> Experiment:
        """The experiment with every part known and every option checked and filled in.

        Raises `UsageError` with every fault; `where` says which file set a key (`Loaded.where`).
        """
        return checking.check(self, experiment, where or (lambda key: experiment.name))

    def used(self, experiment: Experiment) -> tuple[Plugin, ...]:
        """The plugins whose parts the experiment names, each once, as `installed` orders them."""
        names = {self.find(kind, choice.name)[0].name for kind, _, choice in checking.chosen(experiment)}
        return tuple(plugin for plugin in self.installed if plugin.name in names)

    def requirements(self, experiment: Experiment) -> tuple[str, ...]:
        """Requirement lines of the parts that work beside the worker, for a machine that gets lab as files."""
        found = (
            self.find(kind, choice.name) for kind, _, choice in checking.chosen(experiment) if _at_worker(kind, choice)
        )
        return tuple(dict.fromkeys(line for plugin, part in found for line in needs.requirements(plugin, part)))

    def _absent(self, wanted: str) -> list[str]:
        """Plugins that are installed but not loaded: one of them may be what the person looks for."""
        absent = [plugin for plugin in self.installed if plugin.state != "loaded"]
        meant = [
            f"Plugin {plugin.name}: {plugin.error}."
            for plugin in absent
            if plugin.name in wanted or wanted in plugin.name
        ]
        others = f"Not loaded: {', '.join(plugin.name for plugin in absent)} (see `lab plugins`)."
        return meant or ([others] if absent else [])


def load(settings: Settings) -> Plugins:
    """The plugins of this machine; what is wrong with one is said on standard error and stops nothing."""
    plugins = Plugins(settings.blocked_plugins, trace=settings.trace_plugins)
    for plugin in plugins.installed:
        if plugin.state in ("broken", "incompatible"):
            logger.warning("plugin %s (%s) is %s: %s", plugin.name, plugin.owner, plugin.state, plugin.error)
    known = {plugin.name for plugin in plugins.installed}
    for name in sorted(settings.blocked_plugins - known):
        logger.warning("LAB_BLOCKED_PLUGINS: no plugin is called '%s'. %s", name, did_you_mean(name, known))
    return plugins


def _at_worker(kind: str, choice: PartChoice) -> bool:
    return kind != "tracker" or choice.options.get("where") == "worker"


def _imported(kind: str, plugin: Plugin, part: Part, target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", module.partition(".")[0]):
            raise BrokenPart(f"{_owned(kind, plugin, part)} cannot be loaded: {error}", _report(plugin)) from error
        what = f"{_owned(kind, plugin, part)} needs {missing}, which is not installed"
        raise MissingLibrary(what, _install(plugin, part, missing)) from error
    except BaseException as error:  # a part's module may do anything, SystemExit included
        what = f"{_owned(kind, plugin, part)} cannot be loaded: {reason(error)}"
        raise BrokenPart(what, _report(plugin)) from error


def _owned(kind: str, plugin: Plugin, part: Part) -> str:
    return f"the {kind} '{part.name}' of plugin {plugin.name} ({plugin.owner})"


def _report(plugin: Plugin) -> str:
    return f"Reinstall or report {plugin.distribution}, or choose another."


def _install(plugin: Plugin, part: Part, library: str) -> str:
    if part.extra is None:
        return f"Install the package that provides {library}."
    return f"Run: {needs.command(plugin, part)}"
