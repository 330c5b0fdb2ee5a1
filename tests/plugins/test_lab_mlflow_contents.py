"""What MLflow is told of a run beside its points."""

from __future__ import annotations

import sample_runs

from lab.runs import records
from lab_mlflow import contents


def test_what_is_no_text_is_spelt_out_because_mlflow_would_refuse_the_run(tmp_path):
    run = sample_runs.write(tmp_path / "caf\udce9")
    config, provenance = records.read_json(run.config), records.read_json(run.provenance)
    config["experiment"] |= {"description": "d\udc80", "group": "g\udc80"}
    records.write_json(run.config, config)
    records.write_json(run.provenance, {**provenance, "repository": {"branch": "b\udc80"}})

    told = {**contents.parameters(run)[0], **contents.tags(run), "experiment": contents.experiment(run)}

    assert all(text.isascii() or text.encode() for text in told.values())
    assert told["experiment"] == "g\\udc80"
    assert told["mlflow.source.git.branch"] == "b\\udc80"
    assert "caf\\udce9" in told["mlflow.note.content"]
