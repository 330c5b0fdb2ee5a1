"""How large activations are, layer by layer."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def observers() -> list[Part]:
    """The `activation-sizes` observer."""
    return [
        Part(
            "activation-sizes",
            target="activation_sizes.observer:ActivationSizes",
            summary="Draws the root mean square of what each layer hands on, at chosen steps.",
            options="activation_sizes.options:Options",
        )
    ]
