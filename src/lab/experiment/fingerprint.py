"""The hash that two runs share exactly when their experiments ask for the same computation."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from lab.experiment.whole import COMPUTING_KEYS

if TYPE_CHECKING:
    from lab.experiment.whole import Experiment


def fingerprint(experiment: Experiment) -> str:
    """SHA-256 (hex) over what decides the computation.

    Not in it: name, description, group, observers, trackers, checkpoint, limits, results.
    """
    computing = experiment.model_dump(mode="json", include=set(COMPUTING_KEYS), exclude_none=True)
    return hashlib.sha256(json.dumps(computing, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
