from __future__ import annotations

import pytest

from lab.runs.secrets import COVER, Secrets, in_arguments, in_options, promises_secret, variable_promises_secret

HERE = {"HF_TOKEN": "planted-value-1", "RUNPOD_API_KEY": "planted-value-2", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5"}


@pytest.mark.parametrize(
    "key", ["api_key", "apiKey", "API-KEY", "hf_token", "token", "password", "db_password", "secret", "access_token",
            "wandb_api_key", "aws_secret_access_key", "authToken", "private_key"],
)  # fmt: skip
def test_the_name_of_a_secret_is_recognised(key):
    assert promises_secret(key)


@pytest.mark.parametrize(
    "key", ["num_tokens", "train_tokens", "tokenizer", "tokens", "eos_token", "pad_token", "key", "keys", "max_tokens",
            "sort_key", "tokens_per_second", "keyboard", "split_seed", ""],
)  # fmt: skip
def test_the_words_of_this_field_are_no_secrets(key):
    assert not promises_secret(key)


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [("HF_TOKEN", True), ("GITHUB_PAT", True), ("SSH_KEY", True), ("PGPASSWORD", False), ("SENTRY_DSN", True),
     ("DB_PASS", True), ("TOKENIZERS_PARALLELISM", False), ("CUDA_VISIBLE_DEVICES", False), ("NCCL_DEBUG", False)],
)  # fmt: skip
def test_variables_are_judged_by_their_last_word(name, is_secret):
    assert variable_promises_secret(name) == is_secret


def test_the_values_of_this_machines_secrets_are_covered_wherever_they_stand():
    hidden = Secrets(HERE).hidden("a planted-value-1 b planted-value-2 c 0,1,2,3,4,5")

    assert hidden == f"a {COVER} b {COVER} c 0,1,2,3,4,5"


def test_values_too_short_to_tell_apart_and_paths_are_left_alone():
    secrets = Secrets({"A_TOKEN": "yes", "B_KEY": "/home/me/key.json"})

    assert secrets.hidden("yes /home/me/key.json") == "yes /home/me/key.json"


@pytest.mark.parametrize(
    "token", ["ghp_" + "a1" * 10, "hf_" + "A1b2" * 6, "sk-" + "a1b2" * 6, "AKIA" + "A1B2" * 4, "glpat-" + "a1" * 10],
)  # fmt: skip
def test_tokens_are_known_by_their_shape(token):
    assert Secrets({}).what_is_in(f"x = '{token}'") is not None
    assert token not in Secrets({}).hidden(f"x = '{token}'")


@pytest.mark.parametrize(
    "text", ["hf_hub_download", "risk-adjusted-returns-of-everything", "sk-learn", "607a30d783df" * 4]
)
def test_ordinary_words_are_no_tokens(text):
    assert Secrets({}).what_is_in(text) is None


def test_a_password_in_an_address_is_removed_and_the_host_is_kept():
    assert Secrets({}).hidden("from https://me:pass123@host.org/x?y") == "from https://host.org/x?y"


def test_lines_of_code_with_a_secret_are_numbered_unless_they_say_that_it_is_none():
    token = "ghp_" + "a1" * 10
    text = f"one\nx = '{token}'\ny = '{token}'  # not a secret\nplanted-value-1"

    found = list(Secrets(HERE).in_lines(text))

    assert found == [(2, "a GitHub token"), (4, "the value of HF_TOKEN")]


def test_an_address_in_code_is_an_example():
    assert list(Secrets({}).in_lines("see https://user:password@host/x")) == []


def test_options_are_judged_by_name_and_by_value():
    options = {
        "data": {"num_tokens": "5", "tokenizer": {"name": "gpt2"}},
        "trackers": {"wandb": {"api_key": "abc", "entity": "planted-value-1"}},
        "stages": [{"name": "x", "passwords": ["a"], "run": ["curl", "planted-value-2"]}],
    }

    found = dict(in_options(options, Secrets(HERE)))

    assert sorted(found) == ["stages.0.run.1", "trackers.wandb.api_key", "trackers.wandb.entity"]


def test_an_empty_secret_is_none():
    assert list(in_options({"api_key": "", "token": None}, Secrets({}))) == []


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (["x", "--api-key", "v"], True), (["x", "--token=v"], True), (["API_KEY=v"], True),
        (["x", "planted-value-1"], True), (["x", "--api-key"], False), (["x", "--token", "--verbose"], False),
        (["--tokenizer", "gpt2"], False), (["--num-tokens=8"], False), (["x", "token"], False), ([], False),
    ],
)  # fmt: skip
def test_argument_lists_are_judged(arguments, refused):
    assert (in_arguments(arguments, Secrets(HERE)) is not None) == refused
