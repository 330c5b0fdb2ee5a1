"""Any data set that the library `datasets` loads whole, from the hub at a commit or from a folder."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def sources() -> list[Part]:
    """The `datasets` source."""
    return [
        Part(
            name="datasets",
            target="lab_datasets.source:Datasets",
            summary="A data set that `datasets` loads whole and maps into memory, from the hub or a saved folder.",
            extra="hub",
            options="lab_datasets.options:DatasetsOptions",
        )
    ]
