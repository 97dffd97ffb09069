"""With the real library and its files, where it is installed (bash launch/test_loggers.sh)."""

from pathlib import Path

import pytest

from fusedrl.telemetry.mlflow_writer import MlflowWriter


def test_an_interrupted_run_goes_on_with_its_mlflow_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="no MLflow here: bash launch/test_loggers.sh")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    config = {"actor": {f"key{k}": k for k in range(150)}, "long": "x" * 900}
    for first, failed in ((1, True), (4, False)):
        writer = MlflowWriter(tmp_path, project="p", experiment="mine", config=config)
        for step in range(first, first + 3):
            writer.log(step, {"val-core/sums/acc/mean@1": float(step), "actor/lr": float("nan")})
        writer.failed = failed
        writer.close()
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlflow").as_uri())
    group = client.get_experiment_by_name("p").experiment_id
    (run,) = client.search_runs([group])
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")
    assert len(run.data.params) == 151
    assert len(run.data.params["long"]) == 500
    history = client.get_metric_history(run.info.run_id, "val-core/sums/acc/mean_at_1")
    assert [(each.step, each.value) for each in history] == [(step, float(step)) for step in range(1, 7)]
    assert "actor/lr" not in run.data.metrics
