"""Everything that lab does with a rented machine, with Fenland as its cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.rental import RentedBackend
from lab_fenland.options import FenlandOptions
from lab_fenland.provider import FenlandProvider

if TYPE_CHECKING:
    from pydantic import BaseModel


class FenlandBackend(RentedBackend):
    """`further` is for tests, which bring a clock and a store of their own."""

    def __init__(self, options: BaseModel | None = None, **further: Any) -> None:
        chosen = options if isinstance(options, FenlandOptions) else FenlandOptions()
        super().__init__(FenlandProvider(chosen), chosen, **further)
