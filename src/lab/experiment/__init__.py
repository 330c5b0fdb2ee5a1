"""One experiment: the TOML file that decides what a run computes, and in which environment."""

from __future__ import annotations

from lab.experiment.finding import listed, names
from lab.experiment.fingerprint import fingerprint
from lab.experiment.loading import Change, Declaration, Loaded, flat, load
from lab.experiment.sections import PartChoice
from lab.experiment.whole import COMPUTING_KEYS, Experiment

__all__ = [
    "COMPUTING_KEYS",
    "Change",
    "Declaration",
    "Experiment",
    "Loaded",
    "PartChoice",
    "fingerprint",
    "flat",
    "listed",
    "load",
    "names",
]
