"""The table of faults in the docs is made of the tests that inject them; UPDATE_SNAPSHOTS=1 writes it anew."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from rental.cases import CASES

TESTS = Path(__file__).parent.parent
TABLE = TESTS.parent / "docs" / "faults.md"
FAULTS = range(1, 73)
HEAD = """# Faults, and where a rental ends

Made by the tests; `UPDATE_SNAPSHOTS=1 pytest tests/rental/test_fault_table.py` writes it anew. Each line is an injected
fault: its number in the list that the state machine was designed against, what goes wrong, how it is injected, and the
state in which the rental ends. *In process*: the lifecycle against a cloud and an agent in the test's own process, in
virtual time (`tests/rental`). *Simulator*: the real client, bootstrap, agent and stages against a RunPod on loopback
with real processes, disks and signals (`tests/simulator`). *Agent*: the real agent alone, over HTTP.

| fault | what goes wrong | injected | the rental ends |
|---|---|---|---|
"""


def lines():
    """(number, what, level, end) of every injected fault."""
    for case in CASES:
        yield case.number, case.what, "in process", str(case.end)
    for path in sorted(TESTS.glob("*/test_*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                for number, end in marks(function):
                    yield number, function.name.removeprefix("test_").replace("_", " "), level(path), end


def marks(function):
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.fault":
            yield tuple(ast.literal_eval(argument) for argument in decorator.args)


def level(path):
    if path.parent.name != "rental":
        return "simulator"
    return "agent" if "agent" in path.name else "in process"


def table():
    rows = sorted(set(lines()))
    return HEAD + "".join(f"| {number} | {what} | {how} | {end} |\n" for number, what, how, end in rows)


def test_the_table_of_faults_is_what_the_tests_inject():
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        TABLE.write_text(table(), encoding="utf-8")

    assert TABLE.read_text(encoding="utf-8") == table(), "UPDATE_SNAPSHOTS=1 writes it anew"


def test_each_of_the_72_faults_is_injected_somewhere():
    assert sorted(set(FAULTS) - {number for number, *_ in lines()}) == []
