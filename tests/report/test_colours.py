"""The colours of curves, as the three kinds of colour blindness see them."""

from __future__ import annotations

import re
from itertools import combinations
from math import dist
from pathlib import Path

import pytest

import lab.report

STYLE = (Path(lab.report.__file__).parent / "templates" / "page.css").read_text(encoding="utf-8")
SEEN_BY = {
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""Machado, Oliveira, Fernandes (2009), severity 1, on linear RGB."""
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


@pytest.mark.parametrize("kind", SEEN_BY)
@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_curves_are_told_apart_without_one_of_the_eyes_colours(scheme: int, kind: str) -> None:
    found = re.findall(r"--series-\d: (#[0-9a-f]{6});", STYLE)[6 * scheme : 6 * scheme + 6]
    seen = [_lab(_times(SEEN_BY[kind], _linear(color))) for color in found]

    assert len(seen) == 6
    assert dist(seen[0], seen[1]) > 75  # A and B
    for one, other in combinations(range(6), 2):
        if one % 2 == other % 2:  # of one solid and one dashed line, no colour is needed
            assert dist(seen[one], seen[other]) > 9, (one, other)


def _linear(color: str) -> tuple[float, ...]:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def _times(matrix: tuple[tuple[float, ...], ...], vector: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)


def _lab(linear: tuple[float, ...]) -> tuple[float, float, float]:
    """CIE L*a*b*, in which distances are about what an eye sees."""
    ratios = [max(0.0, part / white) for part, white in zip(_times(TO_XYZ, linear), WHITE, strict=True)]
    x, y, z = (ratio ** (1 / 3) if ratio > 0.008856 else 7.787 * ratio + 16 / 116 for ratio in ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)
