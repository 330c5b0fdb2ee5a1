"""Plugins: discover, load, block, list, resolve, and check what an experiment asks of them."""

from __future__ import annotations

from lab.plugins.checking import chosen
from lab.plugins.containing import BrokenPart, reason
from lab.plugins.defaults import NoDefault
from lab.plugins.discovery import LAB, Plugin
from lab.plugins.files import files_sha256
from lab.plugins.interrupts import told_apart
from lab.plugins.loading import MissingLibrary, UnknownPart
from lab.plugins.parts import Plugins, load

__all__ = [
    "LAB",
    "BrokenPart",
    "MissingLibrary",
    "NoDefault",
    "Plugin",
    "Plugins",
    "UnknownPart",
    "chosen",
    "files_sha256",
    "load",
    "reason",
    "told_apart",
]
