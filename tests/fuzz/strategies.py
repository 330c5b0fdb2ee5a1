"""Values that nobody expects, and what must hold of whatever is done with them."""

from __future__ import annotations

import contextlib
import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lab.errors import LabError

ODD_TEXT = (
    "", " ", ".", "..", "../..", "../../etc/passwd", "/", "/etc/passwd", "~", "~root/x", "a/b", "a\\b", "a\0b",
    "\n", "\r\n", "\x1b[2J", "\udcff", "\u2028", "\N{SNOWMAN}", "NaN", "-Infinity", "\\NaN", "null", "true", "no",
    "1e-4", "0x10", "-x", "--help", "$HOME", "$(true)", "{run}", "{python}", "[", "{}", "'", '"', "#",
    "x" * 300, "x" * 5000, "/" * 5000,
)  # fmt: skip
ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.0, -0.0, 1e308, 1e-320, float("nan"), float("inf"))

text = st.sampled_from(ODD_TEXT) | st.text(max_size=12)
leaf = st.none() | st.booleans() | st.sampled_from(ODD_NUMBERS) | text
value = st.recursive(
    leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
)


def bounded(examples):
    """The same examples on every machine, however slow it is."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=quiet)


def places(tree):
    """Every place in a tree of tables and lists, as the keys that lead there."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, below in list(inner)[:40]:
        yield (key,)
        yield from ((key, *deeper) for deeper in places(below))


def replaced(tree, place, new):
    """The tree with another value at one place."""
    first, *rest = place
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[first] = replaced(copy[first], rest, new) if rest else new
    return copy


@contextlib.contextmanager
def only_lab_errors():
    """Whatever is wrong is said to a person; anything else is a fault of ours."""
    with contextlib.suppress(LabError):
        yield


def files_of(folder):
    """Every file, folder and link below a folder."""
    return sorted(os.path.join(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files))
