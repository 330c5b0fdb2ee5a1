"""Run directories: one folder that says which code, environment, data, configuration and results belong together."""
