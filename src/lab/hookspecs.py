"""The seven questions that lab asks every plugin, and `Part`, the answer to each.

A hook takes nothing and returns the parts of one kind that the plugin offers. A part only names its class and its
options model, so answering imports nothing heavy: a laptop without torch knows every name and checks every option.
"""

from __future__ import annotations

from dataclasses import dataclass

import pluggy

GROUP = "lab"
COMMANDS_GROUP = "lab.commands"
HOOKS = {
    "backend": "backends",
    "attention": "attentions",
    "loss": "losses",
    "observer": "observers",
    "tracker": "trackers",
    "loop": "loops",
    "source": "sources",
}
"""The hook that asks for each kind of part."""
KINDS = tuple(HOOKS)
INTERFACE = 1
"""Raised when a contract changes; a plugin may say `LAB_INTERFACE = 1` to be refused by a lab that differs."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@dataclass(frozen=True)
class Part:
    """One replaceable piece of a run, named but not yet imported."""

    name: str
    """What an experiment calls it."""
    target: str
    """Where its class lives, as "module:attribute"."""
    summary: str = ""
    """One sentence for `lab plugins`."""
    extra: str | None = None
    """The optional dependency group of llm-training-lab that brings its libraries, if it needs one."""
    options: str | None = None
    """Where its pydantic options model lives, as "module:attribute", in a module without heavy imports."""


@hookspec
def backends() -> list[Part]:
    """Places where a job can execute: `lab.contracts.Backend`."""
    return []


@hookspec
def attentions() -> list[Part]:
    """Ways to attend within the segments of a batch: `lab.contracts.Attention`."""
    return []


@hookspec
def losses() -> list[Part]:
    """Ways to score hidden states against targets: `lab.contracts.Loss`."""
    return []


@hookspec
def observers() -> list[Part]:
    """Things that watch a run inside the worker and never change it: `lab.contracts.Observer`."""
    return []


@hookspec
def trackers() -> list[Part]:
    """Mirrors of a run directory in somebody's experiment tracker: `lab.contracts.Tracker`."""
    return []


@hookspec
def loops() -> list[Part]:
    """Training loops as generators of steps: `lab.contracts.Loop`."""
    return []


@hookspec
def sources() -> list[Part]:
    """Where documents come from: `lab.contracts.Source`."""
    return []
