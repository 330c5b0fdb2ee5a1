"""What each value of a run's records must be for a reader to work with it; what is otherwise is left out.

Records are read years later and after accidents. A key that no shape names may hold anything: it is only ever shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.runs.records import Record

LARGEST = 2**64


@dataclass(frozen=True)
class Each:
    """A table whose keys are names and whose values all have one shape."""

    inner: Any


ANY, TEXT, WHOLE, NUMBER, TABLE = object, str, int, float, dict
"""Shapes of a single value; `{key: shape}` is a table, `[shape]` a list, `Each(shape)` a table of names."""

_SPLITS = Each({"documents": NUMBER, "tokens": NUMBER, "pairs": NUMBER, "histogram": [ANY]})
_SECTIONS = ("model", "batch", "optimizer", "train", "evaluate", "checkpoint", "environment", "limits")
_PART = {"name": TEXT}
_TOKENIZER = {"name": TEXT, "revision": TEXT, "sha256": TEXT}
_EXPERIMENT = {
    **dict.fromkeys(_SECTIONS, TABLE),
    "loop": _PART,
    "attention": _PART,
    "loss": _PART,
    "observers": TABLE,
    "trackers": TABLE,
    "data": {"source": TABLE, "tokenizer": _TOKENIZER},
    "name": TEXT,
    "description": TEXT,
    "group": TEXT,
}
_MEASURED = ("steps", "seconds", "targets", "tokens_per_second", "median_step_seconds", "flops", "mfu", "peak_flops",
             "peak_allocated_bytes", "peak_reserved_bytes")  # fmt: skip
SHAPES: dict[str, Any] = {
    "config": {
        "created": TEXT,
        "backend": TEXT,
        "fingerprint": TEXT,
        "experiment": _EXPERIMENT,
        "declarations": [{"base": TEXT, "child": TEXT, "changes": [{"key": TEXT}]}],
    },
    "provenance": {
        "repository": {"state": TEXT, "commit": TEXT, "tags": [TEXT], "tracked_changes": [ANY], "untracked": [ANY]},
        "files": Each(TEXT),
        "code_sha256": TEXT,
        "plugins": [{**dict.fromkeys(("name", "distribution", "version", "requirement", "installed_from",
                                      "files_sha256"), TEXT),
                     "parts": Each([TEXT])}],
    },
    "environment": {
        "packages": Each(TEXT),
        "variables": Each(TEXT),
        "device": {"type": TEXT, "name": TEXT, "uuid": TEXT, "memory_bytes": NUMBER},
        "kernels": TABLE,
        "notes": TABLE,
        "differences": [TABLE],
        **dict.fromkeys(("python", "platform", "cpu", "driver", "cuda", "image", "precision", "objective"), TEXT),
        "threads": WHOLE,
    },
    "data_manifest": {"identity": TEXT, "tokenizer": _TOKENIZER, "splits": _SPLITS},
    "data_stats": {
        "splits": _SPLITS,
        "packing": dict.fromkeys(("packs", "capacity", "fill", "segments_per_pack"), NUMBER),
    },
    "outcome": {"status": TEXT, "attempt": WHOLE, "exit_code": WHOLE, "stage": TEXT, "reason": TEXT},
    "resource": {"status": TEXT, "machine": TEXT, "gpu": TEXT},
    "cost": {
        "dollars": NUMBER,
        "dollars_per_hour": NUMBER,
        "phases": Each(NUMBER),
        "dollars_per_million_tokens": Each(NUMBER),
    },
    "summary": {
        "steps": WHOLE,
        "measured": {**dict.fromkeys(_MEASURED, NUMBER), "mfu_reason": TEXT, "peak_source": TEXT},
        "overall": Each(NUMBER),
        "loss": {"first": NUMBER, "last": NUMBER, "evaluations": [{"step": WHOLE, "loss": NUMBER}]},
        "tokens": Each(NUMBER),
        "fingerprints": Each(TEXT),
        "elapsed_seconds": NUMBER,
    },
    "stages": {"stage": TEXT, "event": TEXT, "seconds": NUMBER, "exit_code": WHOLE, "reason": TEXT, "attempt": WHOLE},
    "artifacts": {"path": TEXT, "kind": TEXT, "title": TEXT},
}  # fmt: skip


def fitting(name: str, record: Record) -> tuple[Record, list[str]]:
    """The record without the values that are not what its readers need, and the dotted keys of those.

    `name` is the record's name in `RunDirectory`. A null stands for "absent" and is no fault.
    """
    faults: list[str] = []
    shape = SHAPES.get(name)
    return (_table(record, shape, "", faults) if shape else record), faults


def _table(value: Record, shape: dict[str, Any], where: str, faults: list[str]) -> Record:
    result = dict(value)
    for key, wanted in shape.items():
        if key not in result:
            continue
        place = f"{where}{key}"
        if _fits(result[key], wanted):
            result[key] = _inside(result[key], wanted, place, faults)
            continue
        if result.pop(key) is not None:
            faults.append(place)
    return result


def _inside(value: Any, shape: Any, where: str, faults: list[str]) -> Any:
    if isinstance(shape, dict):
        return _table(value, shape, f"{where}.", faults)
    if isinstance(shape, Each):
        return _table(value, dict.fromkeys(value, shape.inner), f"{where}.", faults)
    if isinstance(shape, list):
        numbered = {str(number): inner for number, inner in enumerate(value)}
        return list(_table(numbered, dict.fromkeys(numbered, shape[0]), f"{where}.", faults).values())
    return value


def _fits(value: object, shape: Any) -> bool:
    if isinstance(shape, (dict, Each)):
        return isinstance(value, dict)
    if isinstance(shape, list):
        return isinstance(value, list)
    if shape in (WHOLE, NUMBER):
        return _is_number(value) and (shape is NUMBER or isinstance(value, int))
    return isinstance(value, shape)


def _is_number(value: object) -> bool:
    """Whether one can calculate with it; a loss may be NaN, but no whole number needs hundreds of digits."""
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < LARGEST)
