"""wandb.json: where the mirror is and how far it has come, so that each sync goes on where the last one ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from lab.runs.records import read_json, write_json

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory

SCHEMA = 1
NAME = "wandb"


@dataclass(frozen=True)
class Link:
    """One mirror. A run that was rewound to a checkpoint gets a new one, because W&B forgets no row."""

    id: str
    mode: Literal["online", "offline"]
    generation: int = 1
    url: str | None = None
    project: str = ""
    entity: str | None = None
    rows: int = 0
    """How many rows were sent; W&B's own counter, which may only rise."""
    offset: int = 0
    """How much of metrics.jsonl they stand for."""
    prefix_sha256: str = ""
    """Of that part of the file: another hash means that the file was rewound."""
    finished: bool = False
    note: str = ""
    """Why it is offline, and what to do about it."""

    def save(self, run: RunDirectory) -> None:
        """Write it."""
        write_json(run.tracker_link(NAME), {"schema": SCHEMA, **asdict(self)})


def load(run: RunDirectory) -> Link | None:
    """The link of an earlier sync, if there was one."""
    record = read_json(run.tracker_link(NAME))
    if record is None:
        return None
    known = {item.name for item in fields(Link)}
    return Link(**{key: value for key, value in record.items() if key in known})


def first(run_id: str, mode: Literal["online", "offline"], generation: int = 1) -> Link:
    """A mirror that holds nothing yet."""
    return Link(id=run_id if generation == 1 else f"{run_id}-{generation}", mode=mode, generation=generation)


def moved(link: Link, **changes: object) -> Link:
    """The same link, further on."""
    return replace(link, **changes)  # type: ignore[arg-type]
