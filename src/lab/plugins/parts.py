"""Finding parts by name: what is offered, the class behind a name, and its options."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, RootModel

from lab.errors import did_you_mean
from lab.plugins import absent, checking, needs
from lab.plugins.containing import BrokenPart, blamed
from lab.plugins.defaults import defaults
from lab.plugins.discovery import Plugin, discover
from lab.plugins.loading import UnknownPart, built, imported, owned, report

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from pydantic.fields import FieldInfo

    from lab.experiment import Experiment, PartChoice
    from lab.hookspecs import Part
    from lab.settings import Settings

logger = logging.getLogger(__name__)
Uses = dict[str, list[str]]
"""What is used of one plugin: names by kind."""


class Plugins:
    """Every installed plugin, and the parts of those that could be loaded.

    `runs` is the folder of earlier runs: they know which plugin brought a part that is no longer there.
    """

    def __init__(self, blocked: Collection[str] = (), *, trace: bool = False, runs: Path | None = None) -> None:
        self.installed: tuple[Plugin, ...] = discover(blocked, trace=trace)
        self._runs = runs

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
            raise UnknownPart(f"no {kind} is called '{name}'", self._what_to_do(kind, name))
        if len(offers) > 1:
            owners = " and ".join(f"{plugin.name} ({plugin.owner})" for plugin, _ in offers)
            do = f"Uninstall one, or block one: LAB_BLOCKED_PLUGINS={offers[-1][0].name}"
            raise UnknownPart(f"two plugins offer a {kind} called '{name}': {owners}", do)
        return offers[0]

    def resolve(self, kind: str, name: str) -> type:
        """The part's class, imported now. Raises `UnknownPart`, `BrokenPart` or `MissingLibrary`."""
        plugin, part = self.find(kind, name)
        return imported(kind, plugin, part, part.target)  # type: ignore[no-any-return]

    def options(self, kind: str, choice: PartChoice, key: str = "") -> BaseModel | None:
        """The options of a choice, checked by the part's own model; None for a part that takes none.

        Raises `UsageError` naming the option as it stands below `key`, such as "data.source".
        """
        model = self.options_model(kind, choice.name)
        plugin, part = self.find(kind, choice.name)
        with blamed(f"the options of {owned(kind, plugin, part)} cannot be checked", report(plugin)):
            options = checking.validated(model, kind, choice, key or kind)
            json.dumps(checking.dumped(options))  # every record holds them
        return options

    def options_model(self, kind: str, name: str) -> type[BaseModel] | None:
        """The part's options model, or None when it takes no options."""
        plugin, part = self.find(kind, name)
        if part.options is None:
            return None
        model = imported(kind, plugin, part, part.options)
        if not (isinstance(model, type) and issubclass(model, BaseModel) and not issubclass(model, RootModel)):
            what = f"{owned(kind, plugin, part)}: {part.options} is not a pydantic model of named options"
            raise BrokenPart(what, report(plugin))
        if twice := next((name for name, field in model.model_fields.items() if _has_alias(field)), None):
            # what is said would be taken by one name and recorded by the other
            what = f"{owned(kind, plugin, part)}: {part.options} gives the option '{twice}' an alias, which lab has not"
            raise BrokenPart(what, report(plugin))
        if kind == "loop" and (fault := checking.misdeclared(model)):
            raise BrokenPart(f"{owned(kind, plugin, part)}: {part.options}: {fault}", report(plugin))
        return model

    def defaults(self, kind: str, name: str) -> dict[str, Any]:
        """Each option's default in JSON's types, or a `NoDefault`; empty for a part that takes none.

        Raises `BrokenPart` where one cannot be shown.
        """
        model = self.options_model(kind, name)
        plugin, part = self.find(kind, name)
        with blamed(f"{owned(kind, plugin, part)} has a default that cannot be shown", report(plugin)):
            return defaults(model) if model else {}

    def build(self, kind: str, choice: PartChoice, key: str = "") -> Any:
        """The part itself: its class, called with its options."""
        options = self.options(kind, choice, key)
        return built(kind, *self.find(kind, choice.name), options)

    def check(self, experiment: Experiment, where: Callable[[str], str] | None = None) -> Experiment:
        """The experiment with every part known and every option checked and filled in.

        Raises `UsageError` with every fault; `where` says which file set a key (`Loaded.where`).
        """
        return checking.check(self, experiment, where or (lambda key: experiment.name))

    def used(self, experiment: Experiment, backend: str | None = None) -> tuple[tuple[Plugin, Uses], ...]:
        """The plugins that the experiment and its backend use, each once, as `installed` orders them.

        Each with the names of what is used of it, by kind; a plugin whose module a stage runs has the kind `command`.
        """
        found: dict[str, Uses] = {}
        choices = [(kind, choice.name) for kind, _, choice in checking.chosen(experiment)]
        for kind, name in [*choices, *([("backend", backend)] if backend else [])]:
            found.setdefault(self.find(kind, name)[0].name, {}).setdefault(kind, []).append(name)
        for plugin in self.installed:
            if run := [stage.name for stage in experiment.stages if plugin.module in stage.run]:
                found.setdefault(plugin.name, {})["command"] = run
        return tuple((plugin, found[plugin.name]) for plugin in self.installed if plugin.name in found)

    def requirements(self, experiment: Experiment) -> tuple[str, ...]:
        """Requirement lines of the parts that work beside the worker, for a machine that gets lab as files."""
        found = (
            self.find(kind, choice.name) for kind, _, choice in checking.chosen(experiment) if _at_worker(kind, choice)
        )
        return tuple(dict.fromkeys(line for plugin, part in found for line in needs.requirements(plugin, part)))

    def _what_to_do(self, kind: str, name: str) -> str:
        """What brings a part that nobody offers: what earlier runs know of it, or else the nearest name."""
        known = absent.advice(kind, name, self.installed, self._runs)
        return known or " ".join([did_you_mean(name, self.parts(kind)), *self._not_loaded(name)])

    def _not_loaded(self, wanted: str) -> list[str]:
        """Plugins that are installed but not loaded: one of them may be what the person looks for."""
        idle = [plugin for plugin in self.installed if plugin.state != "loaded"]
        meant = [plugin for plugin in idle if plugin.name in wanted or wanted in plugin.name]
        others = f"Not loaded: {', '.join(plugin.name for plugin in idle)} (see `lab plugins`)."
        return [f"Plugin {plugin.name}: {plugin.error}." for plugin in meant] or ([others] if idle else [])


def load(settings: Settings) -> Plugins:
    """The plugins of this machine; what is wrong with one is said on standard error and stops nothing."""
    plugins = Plugins(settings.blocked_plugins, trace=settings.trace_plugins, runs=settings.runs_folder)
    for plugin in plugins.installed:
        if plugin.state in ("broken", "incompatible"):
            logger.warning("plugin %s (%s) is %s: %s", plugin.name, plugin.owner, plugin.state, plugin.error)
    known = {plugin.name for plugin in plugins.installed}
    for name in sorted(settings.blocked_plugins - known):
        logger.warning("LAB_BLOCKED_PLUGINS: no plugin is called '%s'. %s", name, did_you_mean(name, known))
    return plugins


def _has_alias(field: FieldInfo) -> bool:
    return any((field.alias, field.validation_alias, field.serialization_alias))


def _at_worker(kind: str, choice: PartChoice) -> bool:
    return kind != "tracker" or choice.options.get("where") == "worker"
