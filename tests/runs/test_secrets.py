from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.jobs import stages
from lab.rental.agent import covering
from lab.runs.secrets import COVER, Secrets, in_arguments, in_options, parts, promises_secret, variable_promises_secret

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


@pytest.mark.parametrize(
    "value", ["yes", "offline", "1234567", "20261203", "3.14159265", "2026-12-03", "--------------------"]
)
def test_short_words_numbers_and_rules_stand_in_any_text_and_are_left_alone(value):
    secrets = Secrets({"A_TOKEN": value, "B_KEY": f"{value}\n{value}"})

    assert secrets.hidden(f"a {value} b") == f"a {value} b"
    assert secrets.what_is_in(value) is None


def test_a_path_of_this_machine_is_no_secret_and_what_only_begins_like_one_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key.json").touch()
    here = f"{tmp_path}/key.json ~/key.json"
    secrets = Secrets({"A_KEY": f"{tmp_path}/key.json", "B_KEY": "~/key.json", "C_KEY": "/Zq7+violet/anvil=="})

    assert secrets.hidden(f"{here} /Zq7+violet/anvil== ") == f"{here} {COVER} "
    assert secrets.what_is_in("x=/Zq7+violet/anvil==") == "the value of C_KEY"


PEM = [
    "-----BEGIN PRIVATE KEY-----",
    "MIIEvQIBADANBgkqhkiG9w0B",
    "AbCdEfGhIjKlMnOpQrStUvWx",
    "YZ==",
    "-----END PRIVATE KEY-----",
]
LINES = pytest.mark.parametrize("end", ["\n", "\r\n", r"\n"])


@LINES
def test_one_line_of_a_key_of_several_lines_is_known(end):
    secrets = Secrets({"SSH_KEY": end.join(PEM)})

    for line in PEM[1:3]:
        assert secrets.hidden(f"load {line}, then go") == f"load {COVER}, then go"
        assert secrets.what_is_in(line) == "the value of SSH_KEY"
        assert list(secrets.in_lines(f"one\nx = '{line}'")) == [(2, "the value of SSH_KEY")]
    assert secrets.hidden("KEY YZ== PRIVATE") == "KEY YZ== PRIVATE"


def test_of_a_key_written_as_json_what_names_its_fields_and_addresses_is_left_alone():
    identity = "0f1e2d3c4b5a69788796"
    fields = {"type": "service_account", "private_key_id": identity, "uri": "https://a.org/oauth2/auth"}
    secrets = Secrets({"A_CREDENTIALS": json.dumps(fields, indent=2)})

    assert secrets.hidden(f"{identity} private_key_id https://a.org/oauth2/auth service_account") == (
        f"{COVER} private_key_id https://a.org/oauth2/auth service_account"
    )


def test_a_value_of_many_short_lines_is_found_as_a_whole():
    secrets = Secrets({"A_SECRET": "ab\ncd\nef\ngh"})

    assert list(secrets.in_lines("one\nx = 'ab\ncd\nef\ngh'\n")) == [(2, "the value of A_SECRET")]
    assert secrets.hidden("ab cd") == "ab cd"


def test_of_two_values_the_longer_is_covered_whole():
    secrets = Secrets({"A_KEY": "violetanvil", "B_KEY": "violetanvil-and-more"})

    assert secrets.hidden("violetanvil-and-more violetanvil") == f"{COVER} {COVER}"


def test_a_private_key_that_nobody_knows_is_covered_to_its_end():
    assert Secrets({}).hidden("a\n" + "\n".join(PEM) + "\nb") == f"a\n{COVER}\nb"


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


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:pass123@host.org/x?y", "https://host.org/x?y"),
        ("https://violet4anvil@host.org/x", "https://host.org/x"),
        ("git+https://violetanvilvioletanvil@host.org/o/r.git", "git+https://host.org/o/r.git"),
        ("HTTP://violet4anvil@host.org", "HTTP://host.org"),
        ("redis://:violet@host.org:6379/0", "redis://host.org:6379/0"),
        ("rediss://default:violet@host.org", "rediss://host.org"),
    ],
)
def test_a_password_or_token_in_an_address_is_removed_and_the_host_is_kept(address, shown):
    assert Secrets({}).hidden(f"from {address}") == f"from {shown}"
    assert Secrets({}).what_is_in(f"from {address}") == "a password or token in an address"


@pytest.mark.parametrize(
    "address",
    ["ssh://git@github.com/o/r.git", "https://jane@host.org/x", "https://janedoes@dev.org/x", "https://host.org/@jane",
     "postgres://postgres1@localhost/runs", "https://host.org:8080/a:b@c", "s3://bucket-2026/key@v1", "https://$TOKEN1234@host",
     "https://{token_name_of_1}@host", "https://<your-token-1>@host", "https://user:<password>@host",
     "me@host.org", "image@sha256:0123456789abcdef", "http://localhost:5000"],
)  # fmt: skip
def test_an_address_with_a_name_a_port_or_a_placeholder_is_left_alone(address):
    assert Secrets({}).hidden(address) == address
    assert Secrets({}).what_is_in(address) is None


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


@given(st.text(st.sampled_from("aA1/-=\"', {}:\\n\n\r~.z9_"), max_size=120))
@example("short1")
@example("~/.profile\n/\n/tmp\n2026-12-03T10:11:12\nviolet-anvil")
@example("\n".join(PEM))
@example(json.dumps({"key_id": "0f1e2d3c4b5a69788796", "uri": "https://a.org/oauth2/auth1"}, indent=1))
def test_the_stage_runner_and_the_agent_cover_by_the_same_rule(value):
    assert stages.secret_parts(value) == covering.secret_parts(value) == parts(value)
