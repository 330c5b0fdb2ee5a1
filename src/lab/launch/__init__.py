"""The controller: experiment, run directory, job, backend, following, collecting, trackers. Never imports torch."""
