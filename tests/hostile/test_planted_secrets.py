"""Keys planted wherever a person may have them are found in nothing that lab writes, its stores and pages included."""

from __future__ import annotations

import gzip
import json
import subprocess

import pytest
import sample_runs

from lab.runs.directory import every
from lab.settings import read_settings

PLANTED = "zq7violetanvil"
TOKEN = "ghp_" + "a1" * 10
STAGE = """
[[stages]]
name = "only"
run = ["sh", "-c", "env; echo $ACME_API_KEY; cat $KEYS; echo num_tokens tokenizer"]
forward = ["ACME_API_KEY"]
"""


def content(path):
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def holding(folder, *secrets):
    """The files below that hold a secret, but for where it was planted."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in (".env", "config")]
    return {str(path.relative_to(folder)) for path in files for secret in secrets if secret.encode() in content(path)}


@pytest.fixture
def planted(project, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", f"{PLANTED}-environment")
    monkeypatch.setenv("num_tokens", "12345678")
    (project / ".env").write_text(f"WANDB_API_KEY='{PLANTED}-dotenv'\nexport ACME_API_KEY={PLANTED}-forwarded\n")
    subprocess.run(["git", "init", "-q"], check=True)
    remote = f"https://user:{TOKEN}@github.com/o/r.git"
    subprocess.run(["git", "remote", "add", "origin", remote], check=True)
    text = f'description = "num_tokens of a tokenizer"\n{STAGE}'.replace("$KEYS", str(project / ".env"))
    (project / "experiments" / "keyed.toml").write_text(text)
    return project


def test_neither_runs_nor_stores_nor_pages_hold_what_was_planted(planted, lab):
    said = [lab("run", "keyed", "--tag", "one"), lab("run", "keyed", "--set", "trackers.mlflow=false")]
    older, newest = [run.id for run in every(read_settings().runs_folder)]
    said += [
        lab("runs", "show", newest), lab("runs", "logs", newest), lab("runs", "--json"),
        lab("report", newest, older), lab("report", newest, "--publish", "reports/one"), lab("compare", newest, older),
    ]  # fmt: skip

    assert [answer.code for answer in said[:2]] == [0, 0]
    assert holding(planted, PLANTED, TOKEN) == set()
    assert holding(planted / ".lab" / "mlflow", older) != set()
    assert PLANTED not in "".join(answer.out + answer.err for answer in said)
    assert "num_tokens tokenizer" in lab("runs", "logs", newest).out
    assert "num_tokens of a tokenizer" in (every(read_settings().runs_folder)[0].config).read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("keyed", "--set", f'description="{PLANTED}-environment"'),
        ("keyed", "--set", f"stages=[{{name='only', run=['curl', '{TOKEN}']}}]"),
        ("keyed", "--backend", "runpod", "--backend-option", f"data_centers=['{PLANTED}-environment']"),
        ("keyed", "--tag", TOKEN),
        ("keyed", "--tag", f"{PLANTED}-environment"),
    ],
)
def test_a_key_on_the_command_line_is_refused_before_anything_is_written(planted, lab, arguments):
    before = {*planted.rglob("*")}

    refused = lab("run", *arguments)

    assert refused.code == 2
    assert any(word in refused.err for word in ("the value of HF_TOKEN", "a GitHub token")), refused.err
    assert PLANTED not in refused.err
    assert TOKEN not in refused.err
    assert {path for path in {*planted.rglob("*")} - before if path.is_file()} == set()


@pytest.mark.parametrize("note", [f"with {TOKEN}", f"{PLANTED}-dotenv", "see https://me:pass123@host.org/x"])
def test_a_key_in_a_note_is_refused_and_the_note_before_stays(planted, lab, note):
    run = sample_runs.write(read_settings().runs_folder)
    lab("runs", "tag", run.id, "--note", "before")

    refused = lab("runs", "tag", run.id, "--note", note)

    assert refused.code == 2
    assert note not in refused.err
    assert json.loads(run.tags.read_text())["note"] == "before"


def test_what_only_sounds_like_a_secret_is_kept(planted, lab):
    plan = json.loads(lab("run", "smoke", "--dry-run", "--json").out)
    check = json.loads(lab("check", "smoke", "--json").out)

    assert plan["bundle"]["sha256"]
    assert check["experiment"]["data"]["tokenizer"]["name"] == "openai-community/gpt2"
    assert check["experiment"]["data"]["train_tokens"] > 0
