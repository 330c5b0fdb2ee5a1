"""Jobs: what a backend executes, the bundle it carries and the runner of its stages."""

from __future__ import annotations

from lab.jobs.job import CODE, PYTHON, RUN, STORE, Job, Needs, Stage

__all__ = ["CODE", "PYTHON", "RUN", "STORE", "Job", "Needs", "Stage"]
