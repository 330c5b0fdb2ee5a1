"""The list of injected faults in docs/faults.md is what the tests really inject, and none is missing.

UPDATE_SNAPSHOTS=1 writes the page anew.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from rental.cases import CASES

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "faults.md"
FAULTS = range(1, 73)
HEAD = """# Faults that are injected, and how a rental ends

Made by the tests; do not edit. `cloud` stands for an in-process provider and agent in virtual time
(`tests/rental/cases.py`), `HTTP` for the simulated RunPod on loopback: real requests, processes, disks and signals
(`tests/plugins/test_lab_runpod_*.py`). Each test sees that its fault fired. On every trace: no Pod is forgotten or
doubled, nothing is deleted before its results are home unless a person says so, no stranger's Pod is touched, and the
bill is what was agreed to.

| fault | level | what happens | the rental ends |
|---|---|---|---|
"""


def marked():
    """(number, end, test) of every test that is marked with a fault."""
    for path in sorted((*TESTS.glob("plugins/test_lab_runpod_*.py"), *TESTS.glob("rental/test_*.py"))):
        level = "HTTP" if "runpod" in path.name else "cloud"
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in getattr(node, "decorator_list", []):
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.fault":
                    number, end = (ast.literal_eval(argument) for argument in decorator.args)
                    yield number, level, _sentence(node.name), end


def _sentence(name):
    return re.sub(r"^test_", "", name).replace("_", " ")


def table():
    rows = {(case.number, "cloud", case.what, str(case.end)) for case in CASES} | set(marked())
    return "".join(f"| {number} | {level} | {what} | {end} |\n" for number, level, what, end in sorted(rows))


def test_every_fault_of_the_list_is_injected():
    injected = {case.number for case in CASES} | {number for number, *_ in marked()}

    assert sorted(injected) == list(FAULTS)


def test_the_page_says_what_the_tests_inject():
    page = HEAD + table()
    if os.environ.get("UPDATE_SNAPSHOTS"):
        PAGE.write_text(page)

    assert PAGE.read_text() == page, "write it anew: UPDATE_SNAPSHOTS=1 pytest tests/plugins/test_lab_runpod_table.py"
