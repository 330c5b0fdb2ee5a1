"""What a part needs: absent, too old or too new is said, and what is met is not."""

from __future__ import annotations

import pytest

from lab.plugins import Plugins, needs

ACME = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [Part("acme", target="nowhere:Acme", extra="fast")]
"""


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        ("acme-kernels", ()),
        ("acme-kernels>=2.13", ()),
        ("acme-kernels>=2.14", ("acme-kernels>=2.14",)),
        ("acme-kernels<2", ("acme-kernels<2",)),
        ("nowhere-kernels>=1", ("nowhere-kernels",)),
    ],
)
def test_a_library_is_missing_where_it_is_absent_or_of_another_version(install_plugin, wanted, missing):
    install_plugin("kernels", "", distribution="acme-kernels", version="2.13.0+cpu")
    site = install_plugin("acme", ACME)
    metadata = site / "lab_acme-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + f'Provides-Extra: fast\nRequires-Dist: {wanted}; extra == "fast"\n')

    assert needs.missing(*Plugins().find("loss", "acme")) == missing


def test_the_loss_of_newer_torches_says_which_it_needs():
    assert needs.requirements(*Plugins().find("loss", "torch-linear")) == ("torch>=2.13",)
