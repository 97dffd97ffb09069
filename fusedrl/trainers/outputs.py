"""What a run leaves in its folder besides metrics: the order that ran and its drawing, checkpoints, validation samples.

runs/NAME/problem.yaml order.csv order.txt order.svg           the schedule of the first training pass
runs/NAME/trace_stepN.json                                     trainer.profile_steps: when each op ran
runs/NAME/checkpoints/global_step_N/{actor,critic}             Hugging Face folders
runs/NAME/validation/step_N.jsonl .html                        validations, one response a line, and a page of them
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch.distributed as dist
import yaml

from fusedrl.checkpoint.atomic import publish_folder, write_file
from fusedrl.models.hf_export import export_hf
from fusedrl.parallel.agreed import agree, tried
from fusedrl.parallel.team import current, leads
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.results import PassReport
from fusedrl.pipeline.spans import RankSpans
from fusedrl.pipeline.trace import save_chrome_trace
from fusedrl.trainers.judging import Judged, sample_lines
from fusedrl.trainers.roles import Role
from fusedrl.trainers.sample_table import write_samples
from schedules.draw.gantt import save_gantt
from schedules.draw.text import text_grid
from schedules.order_file import save_order


@dataclass(eq=False)
class Outputs:
    """Writes into the run's folder; rank 0 alone writes records, exports are collectives."""

    folder: Path
    tokenizer_folder: str
    _order_saved: bool = field(default=False)

    def save_order(self, program: Program) -> None:
        """The first training pass's problem, order and drawing; later calls do nothing."""
        if self._order_saved or not leads():
            return
        self._order_saved = True
        problem, order = program.problem, program.order
        with _spared("the schedule's files"):
            write_file(self.folder / "problem.yaml", yaml.safe_dump(problem.to_dict(), sort_keys=False))
            write_file(self.folder / "order.txt", text_grid(problem, order))
            save_order(self.folder / "order.csv", problem=problem, order=order)
            save_gantt(self.folder / "order.svg", problem=problem, order=order)

    def save_trace(self, step: int, reports: Sequence[PassReport], *, spans: Sequence[RankSpans] = ()) -> None:
        """A step's training passes, one after the other, and what else each rank did, for Perfetto."""
        if leads():
            with _spared(f"trace_step{step}.json"):
                save_chrome_trace(self.folder / f"trace_step{step}.json", reports, spans=spans)

    def checkpoint(self, step: int) -> Path:
        return self.folder / "checkpoints" / f"global_step_{step}"

    def save(self, step: int, roles: Iterable[Role]) -> None:
        """Export models as Hugging Face folders. A collective of all ranks."""
        for role in roles:
            self.export(role, self.checkpoint(step) / role.name)

    def export(self, role: Role, target: Path) -> None:
        """A Hugging Face folder that is whole or absent. Raises AgreedError. A collective of all ranks."""
        beside = target.with_name(f".{target.name}.part")
        if role.held:
            export_hf(role.module, role.groups, beside, tokenizer_folder=self.tokenizer_folder)
        dist.barrier(group=current().group)  # the first rank may hold no part of it
        error = None
        if leads():
            error = tried(lambda: publish_folder(beside, target))
        agree(error, what=f"{target} could not be written")

    def save_validation(
        self, step: int, judged: Judged, *, decode: Callable[[Sequence[int]], str], keep: int | None
    ) -> None:
        """A validation's responses, to look at; the last `keep` validations stay, None: all.

        Those of later steps belong to a course that the run left when it went on from an earlier state.
        """
        if not leads():
            return
        folder = self.folder / "validation"
        with _spared(f"validation/step_{step}"):
            folder.mkdir(parents=True, exist_ok=True)
            write_samples(folder / f"step_{step}", sample_lines(judged, decode=decode))
        there = {int(path.stem.removeprefix("step_")) for path in folder.glob("step_*.jsonl")}
        stay = sorted(each for each in there if each <= step)[-keep if keep else None :]
        for gone in there - set(stay):
            for suffix in (".jsonl", ".html"):
                (folder / f"step_{gone}{suffix}").unlink(missing_ok=True)


@contextmanager
def _spared(what: str) -> Iterator[None]:
    """What a run does not need to go on: a file that cannot be written (a full disk) is told and does not end it."""
    try:
        yield
    except OSError as error:
        print(f"warning: {what} could not be written ({error}); training goes on", file=sys.stderr, flush=True)
