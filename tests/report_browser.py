"""Opens pages in the chromium of this machine and says what a reader would meet."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Opened:
    """A page that is open, and every complaint and request it made so far."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def is_ready(self) -> None:
        """Wait until every chart answers."""
        self.page.wait_for_function(
            "document.querySelectorAll('[data-chart]').length === document.querySelectorAll('.chart.live').length"
        )

    def width_of_content(self) -> int:
        return self.page.evaluate("document.documentElement.scrollWidth")


@dataclass
class Chromium:
    """One browser, in which every page is opened afresh."""

    browser: Any

    @contextmanager
    def open(self, path: Path, width: int = 1280, scheme: str = "light", *, scripts: bool = True) -> Iterator[Opened]:
        """Open a page from disk."""
        viewport = {"width": width, "height": 900}
        page = self.browser.new_page(viewport=viewport, color_scheme=scheme, java_script_enabled=scripts)
        found = Opened(page)
        page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: found.complaints.append(f"error: {error}"))
        page.on("request", lambda request: found.requests.append(request.url))
        page.goto(path.absolute().as_uri())
        if scripts:
            found.is_ready()
        yield found
        page.close()


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Start the browser that is installed, and end it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield Chromium(browser)
        browser.close()
