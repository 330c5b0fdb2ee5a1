"""Whether a real source still gives the texts that somebody published the counts of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.contracts import Published
from lab.errors import UsageError
from lab.rental.provider import CheckResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.settings import Settings


def counted(name: str, settings: Settings) -> Sequence[CheckResult]:
    """Prepare the experiment's data, cached as always, and compare each count of each split."""
    from lab.data.prepare import prepare
    from lab.experiment import load
    from lab.plugins import load as load_plugins

    plugins = load_plugins(settings)
    experiment = plugins.check(load(name, settings.experiments_folder).experiment)
    if experiment.data is None:
        raise UsageError(f"Experiment '{name}' has no [data].", "Name one that reads documents, such as corrected.")
    source = plugins.build("source", experiment.data.source)
    expected = source.published(experiment.data) if isinstance(source, Published) else None
    if expected is None:
        raise UsageError(
            f"Nobody published counts for the data of '{name}'.", f"`lab data prepare {name}` prepares it all the same."
        )
    splits = prepare(experiment.data, source, settings.store_folder).manifest["splits"]
    return [
        CheckResult(f"{split} {count}", splits[split][count] == value, f"{splits[split][count]:,}, published {value:,}")
        for split, counts in expected.items()
        for count, value in counts.items()
    ]
