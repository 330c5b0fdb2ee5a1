"""What is never written down: names that promise a secret, values that are one, and texts that contain either."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COVER = "[hidden]"
ALLOWED = "not a secret"
"""A line of code that says so may hold what looks like a token, for an example or a test."""

SHORTEST = 8
"""Characters of what is covered: no service issues a shorter key, and shorter words stand in any text."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = {"password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials", "apikey", "bearer"}
_LAST_OF_VARIABLE = {"token", "key", "pat", "auth", "pass", "pwd", "dsn", "cookie"}
_KEYS = {"api", "access", "secret", "private", "ssh", "encryption", "signing", "license", "auth"}
_TOKENS = {"access", "api", "auth", "bearer", "refresh", "session", "id", "personal", "secret"}
_SERVICES = {"hf", "huggingface", "github", "gitlab", "wandb", "mlflow", "runpod", "openai", "anthropic", "aws", "gcp"}
_SHAPES = {
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,})",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{16,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{16,}",
    "an API key": r"\b(?:sk-[A-Za-z0-9_-]{20,}|rpa_[A-Za-z0-9]{20,}|wandb_v1_\w{20,}|xox[abp]-[A-Za-z0-9-]{16,})",
    "an AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]+-----END [A-Z ]*PRIVATE KEY-----)?",
}
_ANY_SHAPE = {what: re.compile(pattern) for what, pattern in _SHAPES.items()}
_USER = r"[^\s/@:'\"{}$<>]"
_ADDRESS = re.compile(
    rf"\b([a-z][a-z0-9+.-]*://)(?:{_USER}*:[^\s/@'\"{{}}$<>]{{3,}}"
    # Over HTTP a name alone is a token; elsewhere, as in ssh://git@host, it is a person or a service.
    rf"|(?:(?<=http://)|(?<=https://))(?:(?=[^@\s]*\d){_USER}{{{SHORTEST},}}|{_USER}{{20,}}))@(?=[^\s'\"])",
    re.IGNORECASE,
)
_COMMON = re.compile(r"[-+\d.,:_]{1,15}|[\W_]+")
"""Numbers, dates and rules: they stand in any text."""
_LINE_END = re.compile(r"\n|\\n")
_GAP = re.compile(r"[\s\"',]+")
_LONG = 16


def promises_secret(key: str) -> bool:
    """Whether an option of this name holds a secret; `num_tokens`, `eos_token` and `tokenizer` do not."""
    words = _words(key)
    if any(word in _ALWAYS for word in words) or words in (["token"], ["authorization"]):
        return True
    before = words[-2] if len(words) > 1 else ""
    ending = words[-1] if words else ""
    return (ending == "key" and before in _KEYS | _SERVICES) or (ending == "token" and before in _TOKENS | _SERVICES)


def variable_promises_secret(name: str) -> bool:
    """Whether an environment variable of this name holds a secret: broader, because losing one costs nothing."""
    words = _words(name)
    return promises_secret(name) or (bool(words) and words[-1] in _LAST_OF_VARIABLE)


def parts(value: str) -> list[str]:
    """What of a secret's value is covered wherever it stands: the whole, and each line of one that has several.

    Nothing common is: neither what is short, a number, nor a path of this machine. Of a line of several words, such as
    one of JSON, only what looks like a key is. The stage runner and the agent hold the same rule as their own, for they
    run where lab is not installed.
    """
    found = [value]
    lines = _LINE_END.split(value)
    for line in lines if len(lines) > 1 else ():
        words = [word for word in _GAP.split(line) if word]
        found += words if len(words) == 1 else filter(_looks_like_key, words)
    return [part for part in dict.fromkeys(found) if not _is_common(part)]


def _looks_like_key(word: str) -> bool:
    kinds = any(map(str.isdigit, word)), any(map(str.isalpha, word))
    return len(word) >= _LONG and all(kinds) and "://" not in word


def _is_common(text: str) -> bool:
    if len(text) < SHORTEST or _COMMON.fullmatch(text):
        return True
    return "/" in text and os.path.exists(os.path.expanduser(text))


class Secrets:
    """Knows the secrets of this machine by value, and others by their shape."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        named = {name: value for name, value in variables.items() if variable_promises_secret(name)}
        known = {part: name for name, value in named.items() for part in parts(value)}
        self._known = dict(sorted(known.items(), key=lambda item: -len(item[0])))

    @property
    def values(self) -> tuple[str, ...]:
        """What is covered wherever it stands, the longest first."""
        return tuple(self._known)

    def what_is_in(self, text: str) -> str | None:
        """Say which secret the text contains, or None."""
        return self._token_in(text) or ("a password or token in an address" if _ADDRESS.search(text) else None)

    def in_lines(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the number of each line of code that contains a secret, and which; addresses there are examples."""
        if self._token_in(text) is None:
            return
        found = False
        for number, line in enumerate(text.split("\n"), start=1):
            what = None if ALLOWED in line else self._token_in(line)
            if what is not None:
                found = True
                yield number, what
        for value, name in self._known.items():
            if not found and "\n" in value and value in text:  # of lines too short to be known one by one
                yield text.count("\n", 0, text.index(value)) + 1, f"the value of {name}"

    def hidden(self, text: str) -> str:
        """The text with every secret covered."""
        for value in self._known:
            text = text.replace(value, COVER)
        for shape in _ANY_SHAPE.values():
            text = shape.sub(COVER, text)
        return _ADDRESS.sub(r"\1", text)

    def _token_in(self, text: str) -> str | None:
        for value, name in self._known.items():
            if value in text:
                return f"the value of {name}"
        return next((what for what, shape in _ANY_SHAPE.items() if shape.search(text)), None)


def in_options(values: Mapping[str, object], secrets: Secrets) -> Iterator[tuple[str, str]]:
    """Yield each option, by its dotted key, whose name or value says that it holds a secret, and why."""
    for key, value in _leaves(values):
        name = next((part for part in reversed(key.split(".")) if not part.isdigit()), key)
        if isinstance(value, str) and value and promises_secret(name):
            yield key, f"'{name}' is the name of a secret"
        elif isinstance(value, str) and (what := secrets.what_is_in(value)):
            yield key, f"it contains {what}"


def in_arguments(arguments: Sequence[str], secrets: Secrets) -> str | None:
    """Say why an argument list may hold a secret: `--api-key VALUE`, `TOKEN=VALUE` or a value that is one."""
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        follows = arguments[number + 1 : number + 2]
        flag = name.startswith("-") and (bool(value) if equals else bool(follows) and not follows[0].startswith("-"))
        if promises_secret(name) and (flag or (equals and value)):
            return f"'{name}' is followed by a value"
        if what := secrets.what_is_in(argument):
            return f"it contains {what}"
    return None


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _leaves(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        named = [(str(name), inner) for name, inner in value.items()]
    elif isinstance(value, (list, tuple)):
        named = [(str(number), inner) for number, inner in enumerate(value)]
    else:
        yield key, value
        return
    for name, inner in named:
        yield from _leaves(inner, f"{key}.{name}" if key else name)
