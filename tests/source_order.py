"""Reads a chapter's code as a reader does: from top to bottom."""

from __future__ import annotations

import ast
import inspect
import textwrap

STEP = ("zero_grad", "model", "cross_entropy", "backward", "clip_grad_norm_", "step")


def calls_of_a_step(function) -> list[str]:
    """The names, in source order, of the calls that make a training step."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = [
        (node.lineno, node.col_offset, node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name))
    ]
    return [name for _, _, name in sorted(found) if name in STEP]
