"""What each kind of part must do; a part is built as `cls(options)`, a loop as `cls(context)`.

`options` is an instance of the part's options model, or None when it has none.
"""

from __future__ import annotations

from lab.contracts.attention import Attention, Plan
from lab.contracts.backend import Backend, JobState, LogLine, Quote, Receipt, Resource, Talks, Unquoted
from lab.contracts.loop import ARTIFACT_KINDS, Evaluation, Loop, LoopContext, Step
from lab.contracts.loss import Loss
from lab.contracts.observer import EVENTS, Observer
from lab.contracts.source import Document, Published, Source
from lab.contracts.tracker import Tracker

__all__ = [
    "ARTIFACT_KINDS",
    "EVENTS",
    "Attention",
    "Backend",
    "Document",
    "Evaluation",
    "JobState",
    "LogLine",
    "Loop",
    "LoopContext",
    "Loss",
    "Observer",
    "Plan",
    "Published",
    "Quote",
    "Receipt",
    "Resource",
    "Source",
    "Step",
    "Talks",
    "Tracker",
    "Unquoted",
]
