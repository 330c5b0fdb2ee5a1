"""What sort of thing each difference is, and the order in which the sorts are listed."""

from __future__ import annotations

KINDS = ("weights", "data", "settings", "code", "precision", "libraries", "hardware", "clocks")
"""The fixed order in which differences are listed."""
OTHER = "settings"
"""What an experiment sets that is none of the others: how fast it learns, how long, which steps are measured."""
_OF_KEY = (
    ("seed", "weights"),
    ("model", "weights"),
    ("data", "data"),
    ("batch", "data"),
    ("evaluate", "data"),
    ("optimizer", "settings"),
    ("train.steps", "settings"),
    ("train.warmup_steps", "settings"),
    ("train.prefetch", "settings"),
    ("loop", "code"),
    ("attention", "code"),
    ("loss", "code"),
    ("train.compile", "code"),
    ("stages", "code"),
    ("train.precision", "precision"),
    ("train.residual", "precision"),
    ("environment.packages", "libraries"),
    ("environment.image", "libraries"),
    ("environment.torch_index", "libraries"),
    ("environment", "hardware"),
)
"""The kind of each key that decides the computation, or of all keys below it; the first that fits."""


def kind_of(key: str) -> str:
    """What sort of thing a key of the experiment decides, such as `data` for `batch.tokens`."""
    found = (kind for prefix, kind in _OF_KEY if key == prefix or key.startswith(f"{prefix}."))
    return next(found, OTHER)
