"""What `--set` may be told: the keys of an experiment, its parts by name, their options, and what each is now."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from lab.errors import LabError
from lab.experiment import Experiment, flat, load
from lab.experiment.faults import keys as keys_of
from lab.experiment.merging import PART_KEYS
from lab.plugins import NoDefault, Plugins

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.settings import Settings

CHOSEN = {"loop": "loop", "attention": "attention", "loss": "loss", "data.source": "source"}
"""Keys that choose a part, and its kind."""
NAMED = {"observers": "observer", "trackers": "tracker"}
"""Tables whose keys are names of parts, and the kind of these."""
BEFORE = re.compile(r"--set[\s=]+([\w.-]+)\s*=\s*(\S+)\s")
"""A change that is typed and done; bash takes each `=` for a word."""
WHERE = ("where", "launch")
"""An option of every tracker, which launch reads, and its default."""


def fitting(typed: str, words: Sequence[str], line: str, settings: Settings) -> list[str]:
    """What fits `typed`, as `optimizer.clip=`; once only one key does, its value as well.

    One of `words`, the command's other arguments, is the experiment; `line` says what `--set` was told before. The
    options of parts are known from their models, whose modules import nothing heavy.
    """
    values = _values(words, [f"{key}={value}" for key, value in BEFORE.findall(line)], settings)
    every = dict(_keys())
    if any(typed.startswith(f"{key}.") for key in CHOSEN) or any(_begins(typed, table) for table in NAMED):
        every |= dict(_of_parts(typed, values, Plugins(settings.blocked_plugins)))
    found = [key for key in every if f"{key}=".startswith(typed)]
    if len(found) != 1:
        return [f"{key}=" for key in found]
    now = values.get(found[0], values.get(f"{found[0]}.name", every[found[0]]))
    return [f"{found[0]}=", f"{found[0]}={_shown(now)}"]


def _keys() -> Iterator[tuple[str, object]]:
    """Those that every experiment has, without what they are by default."""
    every = [key for key in keys_of(Experiment) if not key.endswith("name") and not key.startswith("stages")]
    for key in every:
        table = key in NAMED or any(other.startswith(f"{key}.") for other in every)
        if key in PART_KEYS or not table:
            yield key, None


def _of_parts(typed: str, values: Mapping[str, object], plugins: Plugins) -> Iterator[tuple[str, object]]:
    """The options of chosen parts, observers and trackers, with their defaults; of these two the options of one."""
    for key, kind in CHOSEN.items():
        if typed.startswith(f"{key}."):
            yield from _options(key, kind, str(values.get(f"{key}.name")), plugins)
    for table, kind in NAMED.items():
        names = [name for name in sorted(plugins.parts(kind)) if _begins(typed, f"{table}.{name}")]
        yield from ((f"{table}.{name}", True) for name in names)
        if len(names) == 1:
            yield from _options(f"{table}.{names[0]}", kind, names[0], plugins)


def _begins(typed: str, key: str) -> bool:
    """Whether what is typed may become this key, or goes on below it."""
    return key.startswith(typed) or typed.startswith(f"{key}.")


def _options(key: str, kind: str, name: str, plugins: Plugins) -> Iterator[tuple[str, object]]:
    try:
        defaults = plugins.defaults(kind, name)
    except LabError:  # as `lab plugins` says: nobody's part, or a broken one
        return
    if kind == "tracker":
        yield f"{key}.{WHERE[0]}", WHERE[1]
    for option, default in defaults.items():
        yield f"{key}.{option}", None if isinstance(default, NoDefault) else default


def _values(words: Sequence[str], changes: Sequence[str], settings: Settings) -> dict[str, object]:
    """What the experiment among these words says, changed as the line does; empty when none is."""
    for overrides in (changes, ()):  # a change may be wrong, or read wrongly from the line
        for name in words:
            try:
                return flat(load(name, settings.experiments_folder, overrides).experiment)
            except LabError:  # the value of another option, or a broken file, which the command will tell
                continue
    return {}


def _shown(value: object) -> str:
    if value is None:
        return "VALUE"
    return value if isinstance(value, str) else json.dumps(to_jsonable_python(value, fallback=str))
