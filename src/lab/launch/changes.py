"""What changed since a run began that would make its next attempt another computation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.experiment import COMPUTING_KEYS, Experiment, flat, load
from lab.jobs import bundle
from lab.launch.plan import plugin_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.plugins import Plugins
    from lab.runs.records import Record
    from lab.settings import Settings

CODE = ("src/", "plugins/", "scripts/")
"""What of a bundle can change the results; experiments are compared as such."""


def since(config: Record, provenance: Record, recorded: Experiment, settings: Settings, plugins: Plugins) -> list[str]:
    """Every difference between what the run recorded and what is here now, a line each."""
    return [
        *_code(settings, provenance),
        *_plugins(provenance, plugins, recorded),
        *_experiment(config, recorded, settings, plugins),
    ]


def current(config: Record, settings: Settings, plugins: Plugins) -> Experiment:
    """The experiment as its files and the recorded --set now say."""
    overrides = [text for text in config.get("overrides", ()) if isinstance(text, str)]
    files = config.get("files") or [""]
    file = settings.project / str(files[0])
    name = str(file) if file.is_file() else str(config["experiment"]["name"])
    loaded = load(name, settings.experiments_folder, overrides)
    return plugins.check(loaded.experiment, loaded.where)


def _experiment(config: Record, recorded: Experiment, settings: Settings, plugins: Plugins) -> Iterator[str]:
    """What decides the computation and is otherwise now; limits, trackers and the like may change."""
    try:
        now = current(config, settings, plugins)
    except LabError as error:
        yield f"the experiment can no longer be loaded: {error.what}"
        return
    old, new = flat(recorded), flat(now)
    for key in dict.fromkeys([*old, *new]):
        if key.partition(".")[0] in COMPUTING_KEYS and old.get(key) != new.get(key):
            yield f"experiment: {key}: {old.get(key)} -> {new.get(key)}"


def _code(settings: Settings, provenance: Record) -> Iterator[str]:
    recorded = provenance.get("files")
    old = _of_code(recorded if isinstance(recorded, dict) else {})
    new = _of_code(bundle.collect(settings.project, limit_bytes=sys.maxsize).hashes)
    for path in sorted({*old, *new}):
        if old.get(path) != new.get(path):
            what = "changed" if path in old and path in new else "is new" if path in new else "is gone"
            yield f"code: {path} {what}"


def _of_code(files: Mapping[str, str]) -> dict[str, str]:
    return {path: sha256 for path, sha256 in files.items() if path.startswith(CODE)}


def _plugins(provenance: Record, plugins: Plugins, experiment: Experiment) -> Iterator[str]:
    """Plugins that are installed beside lab: their code is not in the bundle."""
    recorded = {str(one.get("name")): one for one in provenance.get("plugins") or () if isinstance(one, dict)}
    for now in plugin_records(plugins, experiment):
        before = recorded.get(str(now["name"]), {})
        if now["third_party"] and before.get("files_sha256") != now["files_sha256"]:
            yield f"plugin: {now['name']} {before.get('version')} -> {now['version']}, with other files"
