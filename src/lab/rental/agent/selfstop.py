"""Stopping one's own machine: every way that the provider named, one after the other, judged by still being alive."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PLACEHOLDER = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")
ANSWER_SECONDS = 30.0
DEATH_SECONDS = 60.0
"""How long a machine may live on after a stop that was accepted."""


class SelfStop:
    """Tries each way in turn, and says what came of it: the ways differ in what they need and what they are allowed."""

    def __init__(
        self, ways: list[dict[str, Any]], variables: Mapping[str, str], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._ways = ways
        self._variables = variables
        self._sleep = sleep
        self.notices: list[str] = []

    def attempt(self) -> None:
        """Go through all ways once. Returning means that the machine still lives."""
        for number, way in enumerate(self._ways, 1):
            try:
                outcome = self._try(way)
            except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                outcome = f"{type(error).__name__}: {error}"
            else:
                self._sleep(DEATH_SECONDS)
            self.notices.append(f"stopping the machine itself, way {number}: {self._without_secrets(outcome)}")
        del self.notices[:-20]

    def _try(self, way: dict[str, Any]) -> str:
        if way.get("argv"):
            argv = [self._filled(word) for word in way["argv"]]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
            return f"exit code {done.returncode}: {(done.stdout + done.stderr)[-200:].strip()}"
        headers = {name: self._filled(value) for name, value in way.get("headers", {}).items()}
        body = self._filled(way.get("body", "")).encode() or None
        request = urllib.request.Request(
            self._filled(way["url"]), body, {"User-Agent": "lab-agent", **headers}, method=way.get("method", "POST")
        )
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return f"HTTP {answer.status}"

    def _filled(self, text: str) -> str:
        return PLACEHOLDER.sub(lambda match: self._variables[match.group(1)], text)

    def _without_secrets(self, text: str) -> str:
        for value in self._variables.values():
            if len(value) >= 16:
                text = text.replace(value, "***")
        return text
