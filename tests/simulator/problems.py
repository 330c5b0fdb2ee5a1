"""The API's errors: RFC 9457 problems."""

from __future__ import annotations

from http import HTTPStatus


class Problem(Exception):
    """An answer other than the one hoped for."""

    def __init__(self, status: int, title: str, detail: str, errors: list[str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.body: dict[str, object] = {"title": title, "status": status, "detail": detail}
        if errors:
            self.body["errors"] = errors

    @classmethod
    def of(cls, status: int, detail: str = "") -> Problem:
        """The usual problem of a status."""
        title = HTTPStatus(status).phrase
        return cls(status, title, detail or title.lower())
