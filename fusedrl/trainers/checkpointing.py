"""A run's states: what PPO, SFT and the training of a reward model save besides their models, and going on from it.

    start = resume_from(config.trainer, ...)                     # before records are opened and models are built
    checkpoints = Checkpoints(config, command=..., models=..., sampler=..., start=start, say=logger.say)
    values = checkpoints.restore()                               # None where the run starts afresh
    for step in range(checkpoints.first, steps + 1):
        ...
        checkpoints.step_done(step, last=step == steps, values={...})

All are collectives of all ranks.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from fusedrl.checkpoint.choose import Saved, exactly, last_good
from fusedrl.checkpoint.folder import remove_leftovers, step_folder
from fusedrl.checkpoint.saver import Saver, what_stays
from fusedrl.checkpoint.snapshot import read_beside, restore_models, restore_random, take_snapshot
from fusedrl.config.load import to_yaml
from fusedrl.config.schema import BaseTrainerConfig, Config
from fusedrl.data.sampler import RowSampler
from fusedrl.models.optimizer_state import adam_steps
from fusedrl.models.training import TrainableModel
from fusedrl.parallel.comm import all_gather_object
from fusedrl.parallel.team import current, leads
from fusedrl.trainers.resuming import changes, check_keys, check_same, checkpoints_of
from fusedrl.trainers.roles import TrainedRole
from fusedrl.trainers.skipping import check_skipped, skipped_in_a_row
from fusedrl.trainers.stopping import Stopped, asked_anywhere

_PATIENCE = 0.8  # of trainer.timeout_s, for a file that is waited for


@dataclass(frozen=True)
class Start:
    """Where a run starts: after a saved state, or afresh. told: lines for the user, once there is a logger."""

    saved: Saved | None = None
    own: bool = False  # the state lies in the run's own folder, whose records go on
    told: tuple[str, ...] = ()

    @property
    def step(self) -> int:
        """Steps that are done."""
        return 0 if self.saved is None else self.saved.step


def resume_from(trainer: BaseTrainerConfig, *, command: str, own: Mapping[str, Any]) -> Start:
    """By trainer.resume_mode; every file is checked. Raises ValueError with what cannot be resumed.

    own: `resuming.identity` of the run's trained models.
    """
    if problems := list(check_keys(trainer)):
        raise ValueError("; ".join(problems))
    checkpoints, told = checkpoints_of(trainer), list[str]()
    if trainer.resume_mode == "disable":
        return Start()
    if trainer.resume_from_path is not None:
        saved: Saved | None = exactly(Path(trainer.resume_from_path))
    else:
        saved = last_good(checkpoints, say=told.append)
    if saved is None:
        return Start()
    check_same(saved.manifest, where=saved.folder, command=command, own=own)
    return Start(saved, saved.folder.parent.parent.resolve() == checkpoints.resolve(), tuple(told))


@dataclass(eq=False)
class Checkpoints:
    """The states of a run. models: those that learn; own: their identity."""

    config: Config
    command: str
    own: Mapping[str, Any]
    models: Mapping[str, TrainedRole]
    sampler: RowSampler
    start: Start
    say: Callable[[str], None]
    saver: Saver = field(init=False)

    def __post_init__(self) -> None:
        trainer = self.config.trainer
        checkpoints = checkpoints_of(trainer)
        self.saver = Saver(
            checkpoints,
            trainer.max_ckpt_to_keep,
            trainer.async_save,
            self.say,
            timeout_s=_PATIENCE * trainer.timeout_s,  # the other ranks wait in a collective meanwhile
        )
        if leads():
            remove_leftovers(checkpoints)

    @property
    def first(self) -> int:
        """The first step to train."""
        return self.start.step + 1

    def restore(self) -> Mapping[str, Any] | None:
        """Fill models, generators and sampler from the state; the values that were saved beside, or None.

        Raises ValueError where the rows are others than those of the saved run.
        """
        if self.start.saved is None:
            return None
        folder, manifest = self.start.saved.folder, self.start.saved.manifest
        values = manifest.values
        self.sampler.load_state_dict(values["sampler"])
        counts = {name: values["models"][name]["adam_steps"] for name in self.models}
        trained = self._held()
        restore_models(folder, manifest.files, trained, counts)
        for name, model in trained.items():
            model.restore_progress(**values["models"][name]["progress"])
        alike = manifest.world == current().size and values["layouts"] == self._layouts()
        if alike:
            restore_random(folder, rank=current().place())
        self._tell(values, alike=alike)
        return dict(values["run"])

    def saved_tensor(self, name: str) -> Tensor:
        """One of the `tensors` that were saved with the state that the run started from."""
        assert self.start.saved is not None
        return read_beside(self.start.saved.folder, name)

    def step_done(
        self, step: int, *, last: bool, values: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None
    ) -> bool:
        """Save after this step where that is due, commit what was under way; whether it was due.

        values: what else the run needs to go on, JSON's types; tensors: flat ones, fp32 or bytes. Raises SaveError;
        AgreedError where too many updates were skipped; and Stopped, once the state is there, where a rank was asked to
        stop and this step is not the last.
        """
        self._check_skipped(step)
        asked = None if last else asked_anywhere()
        due = last or asked or (self.config.trainer.save_freq > 0 and step % self.config.trainer.save_freq == 0)
        self.saver.advance()
        if due:
            self.saver.save(
                step, lambda: take_snapshot(self._held(), tensors), command=self.command, values=self._values(values)
            )
        if asked:
            self.finish()
            raise Stopped(step, asked, step_folder(self.saver.checkpoints, step))
        return bool(due)

    def _check_skipped(self, step: int) -> None:
        """Before the state of a step is saved; an earlier one that is under way is finished if the run ends here."""
        skipped, limit = skipped_in_a_row(self._held()), self.config.trainer.max_skipped_updates
        if limit is not None and max(skipped.values(), default=0) >= limit:
            self.finish()
            check_skipped(skipped, limit=limit, step=step, stays=what_stays(self.saver.checkpoints))

    def finish(self) -> None:
        """Wait for the last state."""
        self.saver.finish()

    def _held(self) -> dict[str, TrainableModel]:
        """The models that this rank holds a part of."""
        return {name: role.trained for name, role in self.models.items() if role.held}

    def _values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "identity": self.own,
            "layouts": self._layouts(),
            "models": {name: self._progress(role) for name, role in self.models.items()},
            "sampler": self.sampler.state_dict(),
            "run": values,
            "config": to_yaml(self.config),
        }

    def _layouts(self) -> dict[str, Any]:
        return {name: _layout(role) for name, role in self.models.items()}

    def _progress(self, role: TrainedRole) -> dict[str, Any]:
        mine = [adam_steps(role.trained), role.trained.progress()] if role.held else None
        found = [each for each in all_gather_object(mine) if each is not None]
        counts = {count for count, _ in found if count is not None}
        assert len(counts) <= 1, f"Adam has taken {sorted(counts)} steps on different ranks of {role.name}"
        return {"adam_steps": counts.pop() if counts else None, "progress": found[0][1]}

    def _tell(self, values: Mapping[str, Any], *, alike: bool) -> None:
        assert self.start.saved is not None
        for line in self.start.told:
            self.say(line)
        self.say(f"RESUMED after step {self.start.step}, from {self.start.saved.folder}")
        if not alike:
            self.say("the layout is another one than the saved run's: numbers go on equal to rounding, not to the bit")
        for line in changes(values["config"], to_yaml(self.config)):
            self.say(f"changed since then: {line}")


def _layout(role: TrainedRole) -> dict[str, Any]:
    """Where a model lies, as a state keeps it: ranks only where it is not on all."""
    found = asdict(role.layout) | {"placement": role.spec.placement, "reverse": role.spec.reverse}
    return found if role.everywhere else found | {"ranks": list(role.spec.ranks)}
