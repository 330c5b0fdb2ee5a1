"""Fail a run in which a test was skipped or expected to fail for a reason that nobody agreed to.

Loaded by `make test` with `-p honest_skips`. Agreed: `gpu`, `live`, and outside CI `browser`.
"""

from __future__ import annotations

import os

import pytest

AGREED = {"gpu", "live"} if os.environ.get("CI") else {"gpu", "live", "browser"}


MARKS = "marks"
"""The property of a report that takes a test's marks from the process that ran it to the one that tells the result."""


class HonestSkips:
    def __init__(self) -> None:
        self.unagreed: list[str] = []
        self.agreed: list[str] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        report.user_properties.append((MARKS, sorted({mark.name for mark in item.iter_markers()})))

    def pytest_runtest_logreport(self, report):
        if report.skipped or hasattr(report, "wasxfail"):
            marks = {mark for key, names in report.user_properties if key == MARKS for mark in names}
            (self.agreed if marks & AGREED else self.unagreed).append(report.nodeid)

    def pytest_collectreport(self, report):
        name = f"{report.nodeid} (a whole file)"
        if report.skipped and name not in self.unagreed:
            self.unagreed.append(name)

    def pytest_terminal_summary(self, terminalreporter):
        for title, names in (("skipped as agreed", self.agreed), ("SKIPPED WITHOUT AGREEMENT", self.unagreed)):
            if names:
                terminalreporter.section(title)
                for name in names:
                    terminalreporter.write_line(name)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        if self.unagreed and exitstatus == 0:
            session.exitstatus = 1


def pytest_configure(config):
    config.pluginmanager.register(HonestSkips(), "honest-skips")
