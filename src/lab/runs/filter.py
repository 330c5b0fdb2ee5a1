"""The language of `lab runs --where`: comparisons of fields, joined by and, or, not and parentheses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lab.errors import UsageError
from lab.runs.filter_fields import condition, named

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.runs.row import Row

DEEPEST = 40
EXAMPLE = "Such as: --where 'loss<3.2 and (gpu~H100 or not status=failed)'"
_TOKEN = re.compile(
    r"\s*(?:(?P<bracket>[()])|(?P<sign><=|>=|!=|==|[<>=~])|(?P<quoted>'[^']*'|\"[^\"]*\")|(?P<word>[^\s()<>=!~'\"]+))"
)


class _Token(NamedTuple):
    kind: str
    text: str


def parse(text: str) -> Callable[[Row], bool]:
    """What the text asks of a row. Raises `UsageError` saying where the text cannot be read."""
    reader = _Reader(text)
    holds = reader.either(0)
    if reader.next.kind:
        raise reader.unexpected("'and', 'or' or the end")
    return holds


class _Reader:
    """Reads by recursive descent: `or` binds least, then `and`, then `not`."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("", "the end")

    def either(self, depth: int) -> Callable[[Row], bool]:
        parts = [self._both(depth)]
        while self._took_keyword("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else lambda row: any(part(row) for part in parts)

    def unexpected(self, wanted: str) -> UsageError:
        at = self.next.text if not self.next.kind else f"'{self.next.text}'"
        return UsageError(f"--where: {at} stands where {wanted} belongs.", EXAMPLE)

    def _both(self, depth: int) -> Callable[[Row], bool]:
        parts = [self._negated(depth)]
        while self._took_keyword("and"):
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else lambda row: all(part(row) for part in parts)

    def _negated(self, depth: int) -> Callable[[Row], bool]:
        negative = False
        while self._took_keyword("not"):
            negative = not negative
        holds = self._bracketed(depth) if self.next == ("bracket", "(") else self._comparison()
        return (lambda row: not holds(row)) if negative else holds

    def _bracketed(self, depth: int) -> Callable[[Row], bool]:
        if depth == DEEPEST:
            raise UsageError(f"--where: more than {DEEPEST} parentheses lie within each other.", EXAMPLE)
        self._at += 1
        holds = self.either(depth + 1)
        if self.next != ("bracket", ")"):
            raise self.unexpected("')'")
        self._at += 1
        return holds

    def _comparison(self) -> Callable[[Row], bool]:
        field = named(self._take("word", "the name of a field").text)
        sign = self._take("sign", "one of < <= > >= = != ~").text
        if self.next.kind == "quoted":
            return condition(field, sign, self._take("quoted", "").text, quoted=True)
        return condition(field, sign, self._take("word", "a value").text)

    def _take(self, kind: str, wanted: str) -> _Token:
        token = self.next
        if token.kind != kind:
            raise self.unexpected(wanted)
        self._at += 1
        return token

    def _took_keyword(self, word: str) -> bool:
        found = self.next.kind == "word" and self.next.text.lower() == word
        self._at += found
        return found


def _tokens(text: str) -> list[_Token]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise UsageError(f"--where: '{text[at:].strip()}' cannot be read.", EXAMPLE)
        kind, word = str(found.lastgroup), found[str(found.lastgroup)]
        tokens.append(_Token(kind, word[1:-1] if kind == "quoted" else "=" if word == "==" else word))
        at = found.end()
    return tokens
