"""The world that the plugin `fake` of a test rents in."""

from __future__ import annotations

world = None

PLUGIN = """
from lab import Part, hookimpl
from lab.rental.backend import RentedBackend
from rental import current

class Backend(RentedBackend):
    def __init__(self, options=None):
        world = current.world
        super().__init__(
            world.cloud, options, store=world.store, clock=world.clock, connect=world.cloud.connect,
            sync=lambda handle: None, streams=1, seed=7,
        )

@hookimpl
def backends():
    return [Part("fake", target="lab_fake:Backend", options="lab.rental.options:RentalOptions")]
"""
