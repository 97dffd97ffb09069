"""Metrics to Weights & Biases, extra `wandb`. Settings by W&B's own variables: WANDB_MODE=offline, WANDB_ENTITY ...

Offline, the run lies in runs/NAME/tracking/wandb; `wandb sync` sends it. A resumed run goes on with its W&B run; of a
step that runs again W&B keeps the first record.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusedrl.telemetry.tracker import Tracker, finite

OFFLINE = ("offline", "dryrun", "disabled")


class WandbWriter(Tracker):
    """A sink. project, experiment: names of W&B's project and run; config: the run's, nested."""

    name = "wandb"

    def __init__(self, folder: Path, *, project: str, experiment: str, config: Mapping[str, Any]) -> None:
        import wandb  # only where asked for

        super().__init__(folder)
        mode = os.environ.get("WANDB_MODE", "")
        if mode not in OFFLINE and not _has_key():
            raise ValueError("no key: run `wandb login`, or set WANDB_MODE=offline and `wandb sync` later")
        kept = self.kept_id
        self._run: Any = wandb.init(
            project=project,
            name=experiment,
            id=kept,
            resume="allow" if kept else None,
            dir=str(self.folder),
            config=dict(config),
            settings=wandb.Settings(console="off"),
        )
        self.keep_id(self._run.id)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        self._run.log(finite(metrics), step=step)

    def close(self) -> None:
        """Its records are written once W&B's own process has ended."""
        import wandb

        self._run.finish(exit_code=int(self.failed))
        wandb.teardown()


def _has_key() -> bool:
    """Whether W&B would not ask for one on a terminal, and wait for it."""
    import wandb

    return bool(os.environ.get("WANDB_API_KEY") or wandb.api.api_key)
