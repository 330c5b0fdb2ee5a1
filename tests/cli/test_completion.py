"""What a shell is told when a person presses Tab: what fits, and never a word about what is wrong."""

from __future__ import annotations

import shutil

import pytest
import sample_runs

COMMANDS = "raise SystemExit('never imported')\n"
NOTHING = "from lab import hookimpl\n"
OPTIMIZER = ("betas", "clip", "fused", "learning_rate", "weight_decay")
SNAPSHOT = [f"observers.memory-snapshot.{option}=" for option in ("step", "max_entries", "stacks")]


@pytest.fixture
def offered(lab, monkeypatch):
    """What bash gets for a line as far as it is typed; the last word is the one to complete."""

    def ask(line):
        words = line.split(" ")
        monkeypatch.setenv("_LAB_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        answer = lab()
        assert (answer.code, answer.err) == (0, "")
        return answer.out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("lab comp", ["compare"]),
        ("lab runs st", ["stop"]),
        ("lab runs --new", ["--newest"]),
        ("lab run corr", ["corrected"]),
        ("lab check smoke --set optimizer.cl", ["optimizer.clip=", "optimizer.clip=1.0"]),
        ("lab check nothing --set optimizer.cl", ["optimizer.clip=", "optimizer.clip=VALUE"]),
        ("lab run smoke --set atten", ["attention=", "attention=sdpa"]),
        ("lab run smoke --set optimizer.", [f"optimizer.{key}=" for key in OPTIMIZER]),
        ("lab run chapter01 --set loop.pack", ["loop.packaged=", "loop.packaged=false"]),
        ("lab run smoke --set loop=chapter01 --set loop.pack", ["loop.packaged=", "loop.packaged=false"]),
        ("lab run smoke --set loop = chapter01 --set loop.pack", ["loop.packaged=", "loop.packaged=false"]),
        ("lab run smoke --set los=chunked --set atten", ["attention=", "attention=sdpa"]),
        ("lab run --backend local chapter01 --set loop.pack", ["loop.packaged=", "loop.packaged=false"]),
        ("lab run chapter01 --set loop.packaged=true --set loop.pack", ["loop.packaged=", "loop.packaged=true"]),
        ("lab run nothing --set loop.", []),
        ("lab run smoke --set loss=chunked --set loss.", ["loss.rows=", "loss.rows=1024"]),
        ("lab run smoke --set observers.", ["observers.memory-snapshot=", "observers.profiler="]),
        ("lab run smoke --set obs", ["observers.memory-snapshot=", "observers.profiler="]),
        ("lab run smoke --set observers.mem", ["observers.memory-snapshot=", *SNAPSHOT]),
        ("lab run smoke --set observers.memory-snapshot.", SNAPSHOT),
        ("lab run smoke --set trackers.wandb.w", ["trackers.wandb.where=", "trackers.wandb.where=launch"]),
        ("lab run smoke --backend lo", ["local"]),
        ("lab doctor --backend run", ["runpod"]),
        ("lab doctor --data smoke-fi", ["smoke-fineweb"]),
        ("lab runs track latest --to ml", ["mlflow"]),
        ("lab plugins new mine --kind lo", ["loss", "loop"]),
    ],
)
def test_what_begins_so_is_offered(offered, line, fits):
    assert sorted(offered(line)) == sorted(fits)


def test_the_options_of_a_strangers_part_are_offered_and_its_broken_neighbour_is_not_heard(offered, install_plugin):
    parts = "Part('acme', 'acme:A', options='acme_options:O'), Part('bad', 'acme:A', options='nowhere:O')"
    hooks = f"from lab import Part, hookimpl\n@hookimpl\ndef observers(): return [{parts}]\n"
    options = (
        "from pydantic import BaseModel\nclass O(BaseModel):\n    path: str\n    every: tuple[int, ...] = (1, 2)\n"
    )
    install_plugin("acme", hooks, files={"acme_options.py": options})

    assert offered("lab check smoke --set observers.acme.e") == [
        "observers.acme.every=", "observers.acme.every=[1,", "2]",
    ]  # fmt: skip
    assert offered("lab check smoke --set observers.acme.p") == ["observers.acme.path=", "observers.acme.path=VALUE"]
    assert offered("lab check smoke --set observers.bad.") == []


@pytest.mark.parametrize(
    "command", ["runs show", "runs rm", "runs stop", "resume", "compare", "report", "ui", "rentals monitor"]
)
def test_runs_are_offered_the_newest_first_after_the_latest(offered, project, command):
    ids = ["smoke-20261201-0900-aaaa", "smoke-20261202-0900-bbbb"]
    for name in ids:
        sample_runs.write(project / ".runs", id=name)

    assert offered(f"lab {command} ") == ["latest", "smoke", *reversed(ids)]
    assert offered(f"lab {command} smoke-20261201") == ids[:1]
    assert offered(f"lab {command} smo") == ["smoke", *reversed(ids)]


def test_what_may_be_inspected_are_experiments_and_runs(offered, project):
    sample_runs.write(project / ".runs", id="smoke-20261201-0900-aaaa")

    assert offered("lab data inspect smok") == ["smoke", "smoke-fineweb", "smoke-flex", "smoke-20261201-0900-aaaa"]


def test_the_stages_of_the_run_that_is_named_are_offered(offered, project):
    run = sample_runs.write(project / ".runs", id="smoke-20261201-0900-aaaa")
    for path in run.logs.iterdir():
        path.unlink()
    (run.logs / "train.log").write_text("")
    sample_runs.write(project / ".runs", id="smoke-20261202-0900-bbbb")

    assert offered("lab runs logs smoke-20261201-0900-aaaa --stage ") == ["train"]


def test_the_command_of_a_plugin_is_offered_without_importing_it(offered, install_plugin):
    install_plugin("acme", NOTHING, commands={"acme": "acme_commands:app"}, files={"acme_commands.py": COMMANDS})

    assert offered("lab acm") == ["acme"]
    assert offered("lab acme ") == []


def test_outside_a_project_nothing_is_offered_and_nothing_said(offered, project, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    assert offered("lab run ") == offered("lab runs show ") == offered("lab runs logs --stage ") == []


@pytest.mark.parametrize("line", ["lab run ", "lab runs show ", "lab run smoke --backend ", "lab runs logs --stage "])
def test_whatever_is_wrong_with_the_project_is_not_said_while_typing(offered, project, monkeypatch, line):
    shutil.rmtree(project / "experiments")
    (project / ".env").write_text("KEY='never closed\n")
    monkeypatch.setenv("LAB_RUNZ", "misspelt")

    assert offered(line) == []


def test_what_a_plugin_says_when_it_is_loaded_is_not_said_while_typing(offered, install_plugin):
    install_plugin("acme", "import sys\nprint('loading', file=sys.stderr)\nprint('loading')\n")

    assert offered("lab run smoke --backend lo") == ["local"]
