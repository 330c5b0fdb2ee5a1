from __future__ import annotations

import json

import pytest

from lab.plugins.origin import is_installed, place, requirement

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (None, "lab-acme==2.1"),
        ({"url": "file:///home/me/lab-acme", "dir_info": {"editable": True}}, None),
        ({"url": "file:///tmp/lab_acme-2.1-py3-none-any.whl", "archive_info": {}}, None),
        ({"url": "https://x.org/lab_acme.whl", "archive_info": {}}, "lab-acme @ https://x.org/lab_acme.whl"),
        (
            {"url": "https://me:ghp_SECRET@x.org/o/r.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"lab-acme @ git+https://x.org/o/r.git@{COMMIT}",
        ),
    ],
)
def test_the_line_brings_this_very_version_and_holds_no_credentials(install_plugin, source, line):
    files = {} if source is None else {"lab_acme-2.1.dist-info/direct_url.json": json.dumps(source)}
    install_plugin("acme", "", version="2.1", files=files)

    assert requirement("lab-acme") == line


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (None, None),
        ({"url": "file:///home/me/my%20plugin", "dir_info": {"editable": True}}, "my plugin"),
        ({"url": "file:///tmp/lab_acme-2.1-py3-none-any.whl", "archive_info": {}}, "lab_acme-2.1-py3-none-any.whl"),
        ({"url": "https://x.org/lab_acme.whl", "archive_info": {}}, None),
    ],
)
def test_the_folder_is_named_without_its_path(install_plugin, source, name):
    files = {} if source is None else {"lab_acme-1.0.dist-info/direct_url.json": json.dumps(source)}
    install_plugin("acme", "", files=files)

    assert place("lab-acme") == name


@pytest.mark.parametrize("damaged", ["{", "[]", '"x"'])
def test_a_damaged_record_of_pips_is_no_reason_to_fail(install_plugin, damaged):
    install_plugin("acme", "", files={"lab_acme-1.0.dist-info/direct_url.json": damaged})

    assert requirement("lab-acme") in (None, "lab-acme==1.0")
    assert place("lab-acme") is None


def test_what_is_not_installed_has_no_line():
    assert requirement("nowhere-to-be-found") is None
    assert not is_installed("nowhere-to-be-found")
