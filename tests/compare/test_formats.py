from __future__ import annotations

import pytest

from lab.compare import formats


@pytest.mark.parametrize(
    ("tokens_per_second", "written"),
    [(222_427.3, "222,427 tokens/s"), (10.4, "10 tokens/s"), (0.2818, "0.28 tokens/s"), (0.0, "0 tokens/s")],
)
def test_a_slow_speed_is_not_rounded_to_nothing(tokens_per_second, written):
    assert formats.speed(tokens_per_second) == written
