"""What every section shares: it runs in a process of its own, on one device, and leaves one JSON record."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lab.plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.experiment import PartChoice


def arguments() -> argparse.Namespace:
    """`SECTION.py [--cpu] --out FILE --folder FOLDER [NAME ...]`"""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def device(cpu: bool) -> torch.device:
    return torch.device("cpu") if cpu else torch.device("cuda", torch.cuda.current_device())


def built(kind: str, choice: PartChoice, where: torch.device) -> tuple[object | None, str]:
    """The part, or None and why this machine cannot use it."""
    try:
        part = Plugins().build(kind, choice)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    ask = getattr(part, "preflight", None)
    reason = (ask(where) if ask else None) or ""
    return (None, reason) if reason else (part, "")


def save(path: Path, record: object) -> None:
    path.write_text(json.dumps(record, indent=1, allow_nan=False), encoding="utf-8")


def median_seconds(call: Callable[[], object], where: torch.device, repeats: int) -> float:
    """The median time of a call, after two that warm up."""
    for _ in range(2):
        call()
    return statistics.median(_seconds(call, where) for _ in range(repeats))


def _seconds(call: Callable[[], object], where: torch.device) -> float:
    if where.type == "cpu":
        begun = time.perf_counter()
        call()
        return time.perf_counter() - begun
    started, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    started.record()
    call()
    ended.record()
    ended.synchronize()
    return started.elapsed_time(ended) / 1000
