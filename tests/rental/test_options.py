from __future__ import annotations

import pytest
from pydantic import ValidationError

from lab.rental.options import RentalOptions


@pytest.mark.parametrize("name", ["max_price", "max_cost", "ready_minutes", "lease_minutes", "running_lease_minutes"])
@pytest.mark.parametrize("value", [0, -1, 1e308, float("nan"), float("inf")])
def test_what_becomes_a_price_or_a_time_is_a_number_that_can_be_one(name, value):
    with pytest.raises(ValidationError, match=name):
        RentalOptions.model_validate({name: value})
