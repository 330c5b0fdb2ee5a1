"""What `lab data inspect` looks up: of the cache that an experiment would use, or of the data that a run used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from lab.data.cache import TokenCache, folder_of
from lab.data.prepare import data_of, find, tokenizer_of
from lab.data.stats import Packing, first_documents, stats
from lab.errors import LabError
from lab.launch.resume import recorded_experiment
from lab.plugins import load
from lab.runs.find import find as find_run
from lab.runs.records import read_json

if TYPE_CHECKING:
    from lab.experiment import Experiment
    from lab.runs.directory import RunDirectory
    from lab.settings import Settings


def of_experiment(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    """Of the cache that the experiment would use. Raises `LabError` when it is not prepared."""
    data = data_of(experiment)
    source = load(settings).build("source", data.source)
    tokenizer = tokenizer_of(data, source)
    folder = find(data, source, settings.store_folder, tokenizer)
    if not folder.exists():
        raise LabError(f"The data of {experiment.name} is not prepared.", f"Run: lab data prepare {experiment.name}")
    cache = TokenCache.open(folder)
    return {
        "of": experiment.name,
        "folder": str(folder),
        "source": cache.manifest["source"],
        "tokenizer": cache.manifest["tokenizer"],
        **stats(cache, Packing.of(data.context, experiment.batch, experiment.seed)),
        "first_documents": first_documents(cache, tokenizer),
    }


def of_run(reference: str, settings: Settings) -> dict[str, Any]:
    """What the run recorded of its data. Raises `LabError` when its prepare stage did not end."""
    run = find_run(reference, settings)
    manifest, statistics = read_json(run.data_manifest), read_json(run.data_stats)
    if manifest is None or statistics is None:
        raise LabError(f"{run.id}: has no data: its prepare stage did not end.", f"See: lab runs logs {run.id}")
    kept = {key: manifest.get(key) for key in ("folder", "source", "tokenizer")}
    return {"of": run.id, **kept, **statistics, "first_documents": _heads(run, str(manifest.get("identity")), settings)}


def _heads(run: RunDirectory, identity: str, settings: Settings) -> list[dict[str, Any]]:
    """The first documents of a run, as long as this machine still has the cache that fed it; none otherwise."""
    folder = folder_of(settings.store_folder, identity)
    if not folder.is_dir():
        return []
    try:
        data = data_of(recorded_experiment(run, read_json(run.config) or {}))
        tokenizer = tokenizer_of(data, load(settings).build("source", data.source))
        return first_documents(TokenCache.open(folder), tokenizer)
    except LabError as error:
        typer.echo(f"The first documents cannot be shown: {error.what}", err=True)
        return []
