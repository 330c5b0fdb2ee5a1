from __future__ import annotations

from lab.plugins import Plugins, files_sha256

CODE = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [Part("acme", target="acme_rest.loss:Acme")]
"""


def the_hash(name="acme"):
    return files_sha256(next(plugin for plugin in Plugins().installed if plugin.name == name))


def test_the_hash_covers_the_modules_of_the_parts_too(install_plugin):
    site = install_plugin("acme", CODE, files={"acme_rest/__init__.py": "", "acme_rest/loss.py": "a = 1\n"})
    before = the_hash()

    (site / "acme_rest" / "loss.py").write_text("a = 2\n")

    assert before != the_hash()


def test_the_hash_is_of_names_and_contents_and_not_of_bytecode_or_place(install_plugin, tmp_path):
    site = install_plugin("acme", CODE)
    before = the_hash()

    (site / "__pycache__").mkdir(exist_ok=True)
    (site / "__pycache__" / "lab_acme.cpython-311.pyc").write_bytes(b"x")
    (site / "elsewhere.py").write_text("")

    assert the_hash() == before


def test_a_plugin_from_an_editable_install_has_a_hash():
    assert len(the_hash("torch")) == 64


def test_a_plugin_whose_files_are_gone_has_none(install_plugin):
    site = install_plugin("acme", CODE)
    (site / "lab_acme.py").unlink()

    assert the_hash() is None
