"""`python -m lab.worker.preflight RUN` checks the run's kernels on this machine's device before data is prepared."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.lingering import exit_soon
from lab.plugins.loading import owned
from lab.worker.command import run_command

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory
    from lab.worker.assemble import Parts

logger = logging.getLogger(__name__)


def preflight(run: RunDirectory) -> int:
    """Make every check, say each figure that passes, and raise `LabError` with those that failed."""
    from lab.training import preflight as checks
    from lab.worker import assemble

    parts = assemble.parts_of(run)
    assemble.observers_of(parts)
    failed = []
    logger.info("kernel checks on %s, precision %s", parts.device, parts.train.precision)
    for finding in checks.run(checks.Subject(parts.attention, parts.loss, parts.device, parts.train.precision)):
        if finding.passed:
            logger.info("%s", finding)
        else:
            failed.append(str(finding))
    if failed:
        listed = "\n".join(failed)
        raise LabError(
            f"The kernel checks failed for {_checked(parts)}:\n{listed}", "Choose another attention or loss."
        )
    return 0


def _checked(parts: Parts) -> str:
    """The parts that were checked, each with the plugin that brings it."""
    chosen = {"attention": parts.experiment.attention, "loss": parts.experiment.loss}
    found = {kind: parts.plugins.find(kind, choice.name) for kind, choice in chosen.items() if choice}
    return " and ".join(owned(kind, plugin, part) for kind, (plugin, part) in found.items())


if __name__ == "__main__":
    exit_soon(run_command("Check the kernels of the run whose directory is RUN.", preflight))
