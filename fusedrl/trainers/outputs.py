"""What a run leaves in its folder besides metrics: the order that ran and its drawing, checkpoints, validation samples.

runs/NAME/problem.yaml order.csv order.txt order.svg           the schedule of the first training pass
runs/NAME/trace_stepN.json                                     trainer.profile_steps: when each op ran
runs/NAME/checkpoints/global_step_N/{actor,critic}             Hugging Face folders
runs/NAME/validation.jsonl                                     the last validation, one response a line
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch.distributed as dist
import yaml
from torch import Tensor

from fusedrl.checkpoint.atomic import publish_folder, write_file
from fusedrl.models.hf_export import export_hf
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.results import PassReport
from fusedrl.pipeline.trace import save_chrome_trace
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.roles import Role
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
        if self._order_saved or dist.get_rank() != 0:
            return
        self._order_saved = True
        problem, order = program.problem, program.order
        write_file(self.folder / "problem.yaml", yaml.safe_dump(problem.to_dict(), sort_keys=False))
        write_file(self.folder / "order.txt", text_grid(problem, order))
        save_order(self.folder / "order.csv", problem=problem, order=order)
        save_gantt(self.folder / "order.svg", problem=problem, order=order)

    def save_trace(self, step: int, reports: Sequence[PassReport]) -> None:
        """A step's training passes, one after the other, for Perfetto."""
        if dist.get_rank() == 0:
            save_chrome_trace(self.folder / f"trace_step{step}.json", reports)

    def checkpoint(self, step: int) -> Path:
        return self.folder / "checkpoints" / f"global_step_{step}"

    def save(self, step: int, roles: Iterable[Role]) -> None:
        """Export models as Hugging Face folders. A collective of all ranks."""
        for role in roles:
            self.export(role, self.checkpoint(step) / role.name)

    def export(self, role: Role, target: Path) -> None:
        """A Hugging Face folder that is whole or absent. A collective of all ranks."""
        beside = target.with_name(f".{target.name}.part")
        export_hf(role.module, role.groups, beside, tokenizer_folder=self.tokenizer_folder)
        if dist.get_rank() == 0:
            publish_folder(beside, target)
        dist.barrier()

    def save_validation(
        self,
        rows: Sequence[PromptRow],
        completions: Sequence[Completion],
        acc_B: Tensor,
        *,
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        """The last validation's responses, to look at."""
        if dist.get_rank() != 0 or not rows:
            return
        each = len(completions) // len(rows)
        lines = [
            {
                "prompt": decode(c.prompt),
                "response": decode(c.tokens),
                "ground_truth": rows[i // each].ground_truth,
                "acc": float(acc_B[i]),
                "finish_reason": c.finish_reason,
            }
            for i, c in enumerate(completions)
        ]
        write_file(self.folder / "validation.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
