from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.cli.output import print_json


@dataclass
class Found:
    path: Path
    names: tuple[str, ...]
    loss: float


def test_a_folder_whose_name_is_no_text_is_a_document_all_the_same(capsys):
    print_json({"found": [Found(Path("caf\udce9") / "a", ("\udc80",), float("nan"))]})

    printed = json.loads(capsys.readouterr().out)
    assert printed == {"found": [{"path": "caf\udce9/a", "names": ["\udc80"], "loss": "NaN"}]}
