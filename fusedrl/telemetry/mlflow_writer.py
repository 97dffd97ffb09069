"""Metrics to MLflow, extra `mlflow`: to the server or store of MLFLOW_TRACKING_URI, else to files in the run's folder.

    mlflow ui --backend-store-uri runs/NAME/tracking/mlflow

A resumed run goes on with its MLflow run. Names are in MLflow's characters: val-core/sums/acc/mean_at_1.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fusedrl.telemetry.tracker import Tracker, finite, flat, plain_name

AT_ONCE = 100  # parameters of a request
LONGEST = 500  # characters of a parameter
Item = TypeVar("Item")


class MlflowWriter(Tracker):
    """A sink. project, experiment: names of MLflow's experiment and run; config: the run's, nested."""

    name = "mlflow"

    def __init__(self, folder: Path, *, project: str, experiment: str, config: Mapping[str, Any]) -> None:
        super().__init__(folder)
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        if not uri:  # MLflow 3 wants to hear that files are meant
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow import MlflowClient  # only where asked for

        self._client: Any = MlflowClient(tracking_uri=uri or self.folder.resolve().as_uri())
        self._run = self._resumed() or self._started(project, experiment, config)
        self.keep_id(self._run)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        found = [Metric(plain_name(name), value, now, step) for name, value in finite(metrics).items()]
        for some in _parts(found, size=AT_ONCE):
            self._client.log_batch(self._run, metrics=some)

    def close(self) -> None:
        self._client.set_terminated(self._run, status="FAILED" if self.failed else "FINISHED")

    def _resumed(self) -> str | None:
        kept = self.kept_id
        if kept is not None:
            self._client.update_run(kept, status="RUNNING")
        return kept

    def _started(self, project: str, experiment: str, config: Mapping[str, Any]) -> str:
        from mlflow.entities import Param

        found = self._client.get_experiment_by_name(project)
        group = self._client.create_experiment(project) if found is None else found.experiment_id
        run = str(self._client.create_run(group, run_name=experiment).info.run_id)
        params = [Param(plain_name(key), str(value)[:LONGEST]) for key, value in flat(config)]
        for some in _parts(params, size=AT_ONCE):
            self._client.log_batch(run, params=some)
        return run


def _parts(items: Sequence[Item], *, size: int) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]
