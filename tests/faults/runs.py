"""Runs that meet faults, and how they are compared with the run that met none."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.folder import state_folder
from fusedrl.checkpoint.manifest import read_manifest
from tests.faults.faults import Fault
from tests.faults.launcher import Ended, launch
from tests.fusedrl.trainers.checkpoint_jobs import VARYING
from tests.fusedrl.trainers.test_ppo_runs import REWARD, overrides
from tests.fusedrl.trainers.test_preflight import model

STEPS = 4
STREAM = ("actor_rollout_ref.rollout.inference=instances", "actor_rollout_ref.rollout.streaming=true")
TELLS = "fusedrl.ppo: "


class Runs:
    """Runs in a folder, all of the same model, data, reward and seed. form: "stages" or "stream"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reward.py").write_text(REWARD)
        self._model = model(folder / "actor")
        self._whole: dict[tuple[str, int], Any] = {}

    def arguments(self, run: str, *more: str, form: str = "stages", steps: int = STEPS) -> list[str]:
        fixed = [f"custom_reward_function.path={self.folder / 'reward.py'}", "parallel=pp2", "trainer.save_freq=1"]
        fixed += [f"trainer.total_training_steps={steps}", "trainer.export_hf=false", "trainer.logger=[console]"]
        return overrides(self._model, self.folder / run, *fixed, *(STREAM if form == "stream" else ()), *more)

    def start(self, run: str, *more: str, fault: Fault | None = None, own_store: bool = False, **which: Any) -> Ended:
        return launch(self.arguments(run, *more, **which), folder=self.folder, fault=fault, own_store=own_store)

    def whole(self, *, form: str = "stages", steps: int = STEPS) -> Any:
        """What is left by the run that meets no fault."""
        if (form, steps) not in self._whole:
            run = f"whole_{form}_{steps}"
            ended = self.start(run, form=form, steps=steps)
            assert ended.codes == (0, 0), ended.text
            self._whole[form, steps] = self.left_by(run, steps=steps)
        return self._whole[form, steps]

    def left_by(self, run: str, *, steps: int = STEPS) -> Any:
        """Of a run that is done: checksums of its last state, its place in the rows, its rows of metrics."""
        manifest = read_manifest(state_folder(self.folder / run / "checkpoints", steps))
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        rows = [
            {name: value for name, value in json.loads(line).items() if not name.startswith((*VARYING, "rollout/"))}
            for line in lines
        ]
        assert [row["step"] for row in rows] == list(range(1, steps + 1))
        return {name: file.sha256 for name, file in manifest.files.items()}, manifest.values["sampler"], rows

    def check_goes_on(self, run: str, *more: str, form: str = "stages", steps: int = STEPS) -> Ended:
        """The same command, started again, ends as the whole run: files, rows and place to the bit."""
        ended = self.start(run, *more, form=form, steps=steps)
        assert ended.codes == (0, 0), ended.text
        assert "RESUMED after step " in ended.text
        assert self.left_by(run, steps=steps) == self.whole(form=form, steps=steps)
        assert leftovers(self.folder / run) == []
        return ended


def leftovers(run: Path) -> list[str]:
    """Parts of files that a run left behind."""
    return [str(path) for path in run.rglob("*") if path.name.endswith((".part", ".old"))]


def check_ended(ended: Ended, *, codes: Sequence[int], said: str, killed: Sequence[int] = (), lines: int = 1) -> None:
    """One message, the codes, no traceback, no process that stays. lines: of `TELLS`, from all ranks."""
    assert ended.codes == tuple(codes), ended.text
    assert ended.killed == tuple(killed), ended.text
    assert ended.left == (), ended.text
    assert said in ended.text, ended.text
    assert "Traceback" not in ended.text, ended.text
    assert sum(line.startswith(TELLS) for line in ended.text.splitlines()) == lines, ended.text
