"""Loads chapter 1's model once for each case on standard input, and says what came of it.

A process of its own: the hub's client reads its address when it is imported.
"""

from __future__ import annotations

import json
import sys

import torch

from lab.errors import LabError
from lab_chapter01.model import load
from lab_chapter01.options import Options


def answer(case: dict[str, object]) -> dict[str, object]:
    try:
        loaded = load(Options.model_validate(case), torch.device("cpu"))
    except LabError as error:
        return {"error": error.what, "do": error.do}
    return {"revision": loaded.revision, "weight": loaded.followed.weight[507, 1365].item()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps([answer(case) for case in json.load(sys.stdin)]))
