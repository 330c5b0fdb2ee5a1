"""From an experiment to a plan: everything that a run needs, checked before anything is created."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from lab.contracts import Quote, Unquoted
from lab.errors import UsageError
from lab.experiment import PartChoice, flat, load
from lab.experiment.bounds import require_bounded
from lab.experiment.fingerprint import fingerprint
from lab.experiment.merging import override
from lab.jobs import allowed, bundle
from lab.launch import carried
from lab.launch.job_of import job_of
from lab.launch.variables import export, variables
from lab.plugins import files_sha256
from lab.plugins.origin import place, requirement
from lab.runs import environment, provenance
from lab.runs.secrets import Secrets, in_arguments, in_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lab.contracts import Backend
    from lab.experiment import Experiment, Loaded
    from lab.jobs import Job
    from lab.jobs.bundle import Bundle
    from lab.plugins import Plugins
    from lab.runs.environment import Difference
    from lab.settings import Settings


@dataclass(frozen=True)
class Plan:
    """What `lab run` is about to do; making one writes nothing."""

    settings: Settings
    loaded: Loaded
    experiment: Experiment
    overrides: tuple[str, ...]
    backend_choice: PartChoice
    backend: Backend
    bundle: Bundle
    job: Job
    """Still without a run id."""
    quote: Quote
    differences: tuple[Difference, ...]
    """Between the declared environment and this machine, for a backend that rents none."""
    plugins: tuple[Mapping[str, object], ...]
    """As provenance records them."""
    carried: Bundle
    """What travels beside the bundle: the files of plugins that no index has."""
    secrets: Secrets

    def config(self, run_id: str) -> dict[str, object]:
        """The record of the resolved experiment and of what it declares to change."""
        return {
            "schema": 1,
            "run_id": run_id,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "backend": self.backend_choice.name,
            "backend_options": self.backend_choice.options,
            "experiment": self.experiment.model_dump(mode="json"),
            "fingerprint": fingerprint(self.experiment),
            "files": [_near(path, self.settings.project) for path in self.loaded.files],
            "declarations": [asdict(declaration) for declaration in self.loaded.declarations],
            "overrides": list(self.overrides),
        }

    @cached_property
    def provenance(self) -> dict[str, object]:
        """The record of the code that runs."""
        checkout = allowed.checkout_of(self.settings.project)
        hashes = {"code_sha256": self.bundle.code_sha256, "bundle_sha256": self.bundle.sha256}
        elsewhere = None if checkout == self.settings.project else checkout
        return provenance.provenance(
            self.settings.project, elsewhere, self.bundle.hashes, hashes, self.plugins, self.secrets
        )


def plan(
    name: str,
    overrides: Sequence[str],
    settings: Settings,
    plugins: Plugins,
    backend: PartChoice,
    bundle_bytes: int = bundle.LIMIT_BYTES,
    *,
    dry: bool = False,
) -> Plan:
    """Load and check everything. Raises `LabError` for whatever would make the run fail or leak later.

    With `dry` nothing will be started, so a backend that cannot be asked for its price is no reason to stop.
    """
    loaded = load(name, settings.experiments_folder, overrides)
    experiment = plugins.check(loaded.experiment, loaded.where)
    known = variables(settings)
    secrets = Secrets(known)
    refuse_secrets(experiment, loaded, secrets)
    _refuse_secret_options(backend, secrets)
    packed = bundle.collect(settings.project, [path.absolute() for path in loaded.files], bundle_bytes)
    bundle.refuse_secrets(packed, secrets)
    job = job_of(experiment, plugins, packed.sha256, known)
    export(job.forwarded, known)
    chosen_backend: Backend = plugins.build("backend", backend)
    used = tuple(plugin_records(plugins, experiment, backend.name))
    beside = carried.checked(chosen_backend, used, secrets, bundle_bytes, packed.files)
    quote = _quote(chosen_backend, job, str(loaded.files[0]), dry=dry)
    return Plan(
        settings=settings,
        loaded=loaded,
        experiment=experiment,
        overrides=tuple(overrides),
        backend_choice=backend,
        backend=chosen_backend,
        bundle=packed,
        job=job,
        quote=quote,
        differences=() if quote.candidates or quote.unknown else here_differs(experiment),
        plugins=used,
        carried=beside,
        secrets=secrets,
    )


def backend_choice(name: str, options: Sequence[str]) -> PartChoice:
    """The backend by name, with options given as KEY=VALUE."""
    chosen_options: dict[str, object] = {}
    for text in options:
        try:
            chosen_options.update(override(text))
        except UsageError as error:
            raise UsageError(f"--backend-option {text!r} is not key=value.") from error
    require_bounded(chosen_options, "--backend-option")
    return PartChoice.model_validate({**chosen_options, "name": name})


def _quote(backend: Backend, job: Job, where: str, *, dry: bool) -> Quote:
    """What the backend would take for the job; `where` is the file to name when the experiment does not fit it."""
    try:
        return backend.quote(job)
    except Unquoted as error:
        if not dry:
            raise
        return Quote("machines and price are unknown", unknown=error.what)
    except UsageError as error:
        error.what = f"{where}: {error.what}"
        raise


def here_differs(experiment: Experiment) -> tuple[Difference, ...]:
    """What the experiment declares and this machine has otherwise."""
    declared = experiment.environment
    gpu = environment.gpu_name() if declared.gpu is not None else None
    return tuple(environment.differences(declared, None, gpu, None))


def plugin_records(plugins: Plugins, experiment: Experiment, backend: str | None = None) -> Iterator[dict[str, object]]:
    """The plugins that the run uses: what of each, what brings it again, and the hash of its own files."""
    for plugin, parts in plugins.used(experiment, backend):
        yield {
            "name": plugin.name,
            "distribution": plugin.distribution,
            "version": plugin.version,
            "requirement": requirement(plugin.distribution),
            "installed_from": place(plugin.distribution) if plugin.third_party else None,
            "files_sha256": files_sha256(plugin),
            "third_party": plugin.third_party,
            "parts": parts,
        }


def refuse_secrets(experiment: Experiment, loaded: Loaded, secrets: Secrets) -> None:
    """Raise `UsageError` when the experiment itself holds a secret: everything in it is written down."""
    told = "Remove it: an experiment is recorded in every run. Put the value into .env under a name of its own."
    for key, why in in_options(flat(experiment), secrets):
        raise UsageError(f"{loaded.where(key)}: {key}: {why}", told)
    for number, stage in enumerate(experiment.stages):
        if told_why := in_arguments(stage.run, secrets):
            raise UsageError(f"{loaded.where('stages')}: stages.{number}.run: {told_why}", told)


def _refuse_secret_options(backend: PartChoice, secrets: Secrets) -> None:
    for key, why in in_options(backend.options, secrets):
        told = "Remove it: a run's record names the options of its backend. Put the value into .env."
        raise UsageError(f"--backend-option {key}: {why}", told)


def _near(path: Path, project: Path) -> str:
    """Relative to the project where it is inside, so that a record reads the same wherever the project lies."""
    whole = path.absolute()
    return str(whole.relative_to(project) if whole.is_relative_to(project) else whole)
