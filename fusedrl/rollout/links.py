"""Messages between the stages of a generating pipeline: hidden states go forward, sampled tokens come back.

                      forward group                        back group
    stage 0  --hidden-->  stage 1  --hidden-->  stage 2  --tokens-->  stage 0
             --tokens-->           (stage 2 drew them)

A turn is one pass of one batch; turns run in the same sequence on all stages, and so do the messages of each link. The
tokens of a turn are taken when their batch's next turn begins: stage 0 gets them from the last stage, stages between
from the one before, just ahead of the hidden states. Every shape is known to both sides beforehand.

No order of these messages can hang where a send waits for its receive: each direction has a group of its own (NCCL
keeps one sequence for each pair of ranks and group), sends are never waited for before their receiver needs them, and
stage 0 posts the receive of a turn's tokens before it goes on. Every wait on gloo has the limit `timeout_s`; NCCL's
watchdog ends a message that does not come.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.parallel.comm import all_gather_object
from fusedrl.parallel.pipeline_view import stage_ranks
from fusedrl.parallel.team import on, whole


@dataclass(frozen=True, eq=False)
class Drawn:
    """token_R int64 and logp_R fp32 of a turn on their way, as fp64, which holds both exactly.

    sends: this rank's messages up to this turn; work: the posted receive.
    """

    drawn_2R: Tensor
    sends: int
    work: dist.Work | None = None


class StageLinks:
    """This rank's links. Making them is a collective of all ranks of the job where any model has several stages."""

    def __init__(
        self, pp_group: Any, *, device: torch.device, dtype: torch.dtype, hidden: int, timeout_s: float
    ) -> None:
        self.stage, self.stages = pp_group.rank(), pp_group.size()
        self._ranks = stage_ranks(pp_group)
        self._device, self._dtype, self._hidden, self._timeout_s = device, dtype, hidden, timeout_s
        self._sent: deque[tuple[Tensor, dist.Work, int]] = deque()  # the tensors live until they are taken
        self._sends = 0
        if self.stages > 1:
            self._forward, self._back = _open(self._ranks, timeout_s=timeout_s)
            self._limit = timedelta(seconds=timeout_s) if dist.get_backend(self._forward) == "gloo" else None
            self._warm_up()

    @property
    def first(self) -> bool:
        return self.stage == 0

    @property
    def last(self) -> bool:
        return self.stage == self.stages - 1

    def receive_hidden(self, tokens: int) -> Tensor | None:
        """hidden_NH of the stage before; None on the first."""
        if self.first:
            return None
        hidden_NH = torch.empty(tokens, self._hidden, device=self._device, dtype=self._dtype)
        self._wait(self._receive(self._forward, hidden_NH, self.stage - 1), self.stage - 1)
        return hidden_NH

    def send_hidden(self, hidden_NH: Tensor) -> None:
        self._send(self._forward, hidden_NH, self.stage + 1)

    def give(self, token_R: Tensor, logp_R: Tensor) -> Drawn:
        """Called by the last stage with what it drew."""
        drawn_2R = torch.stack([token_R.double(), logp_R.double()])
        if not self.first:
            self._send(self._back, drawn_2R, 0)
        return Drawn(drawn_2R, self._sends)

    def expect(self, rows: int) -> Drawn:
        """Called by the other stages once they have sent a turn's hidden states."""
        drawn_2R = torch.empty(2, rows, dtype=torch.float64, device=self._device)
        work = self._receive(self._back, drawn_2R, self.stages - 1) if self.first else None
        return Drawn(drawn_2R, self._sends, work)

    def take(self, drawn: Drawn) -> tuple[Tensor, Tensor]:
        """(token_R, logp_R) of a turn, on every stage. Turns are taken in the sequence in which they ran."""
        if drawn.work is not None:
            self._wait(drawn.work, self.stages - 1)
        elif not self.last:
            self._wait(self._receive(self._forward, drawn.drawn_2R, self.stage - 1), self.stage - 1)
        if self.stage + 1 < self.stages - 1:
            self._send(self._forward, drawn.drawn_2R, self.stage + 1)
        self._release(drawn.sends)
        token_R, logp_R = drawn.drawn_2R.unbind(0)
        return token_R.long(), logp_R.float()

    def finish(self) -> None:
        """Wait for all sends; called where every turn has been taken. A dropped one would never arrive."""
        self._release(self._sends)

    def _release(self, sends: int) -> None:
        """Let go of the messages up to a turn whose tokens are here: all stages have run it, so all were received."""
        while self._sends - len(self._sent) < sends:
            _, work, stage = self._sent.popleft()
            self._wait(work, stage)

    def _send(self, group: Any, tensor: Tensor, stage: int) -> None:
        tensor = tensor.contiguous()
        self._sends += 1
        self._sent.append((tensor, group.send([tensor], self._peer(group, stage), 0), stage))

    def _receive(self, group: Any, buffer: Tensor, stage: int) -> dist.Work:
        work: dist.Work = group.recv([buffer], self._peer(group, stage), 0)
        return work

    def _peer(self, group: Any, stage: int) -> int:
        return dist.get_group_rank(group, self._ranks[stage])

    def _wait(self, work: dist.Work, stage: int) -> None:
        """stage: the one at the other end."""
        if self._limit is None:
            work.wait()
            return
        try:
            work.wait(self._limit)
        except RuntimeError as error:
            raise RuntimeError(
                f"generation: stage {self.stage} waited for stage {stage} (rank {self._ranks[stage]}), limit "
                f"{self._timeout_s:g} s: {str(error).splitlines()[0]}"
            ) from error

    def _warm_up(self) -> None:
        """A collective and a message on each link: communicators that are born later can hang a turn."""
        token = torch.zeros(1, device=self._device)
        for group, pairs in ((self._forward, _steps(self.stages)), (self._back, [(self.stages - 1, 0)])):
            dist.all_reduce(token, group=group)
            for source, target in pairs:
                if self.stage == source:
                    group.send([token], self._peer(group, target), 0).wait()
                elif self.stage == target:
                    group.recv([token], self._peer(group, source), 0).wait()


def pass_by(*, timeout_s: float) -> None:
    """The part of a rank without an engine in the making of links, which is a collective of all ranks of the job."""
    _open((), timeout_s=timeout_s)


def _steps(stages: int) -> list[tuple[int, int]]:
    return [(stage, stage + 1) for stage in range(stages - 1)]


def _open(ranks: Sequence[int], *, timeout_s: float) -> list[Any]:
    """Two groups for each pipeline of the job, made in one sequence on all ranks; this rank's, if it is in one."""
    mine: list[Any] = []
    with on(whole()):  # as new_group is
        everyone = all_gather_object(list(ranks))
    lines = dict.fromkeys(tuple(sorted(line)) for line in everyone)
    for line in filter(None, lines):
        for _ in range(2):
            group = dist.new_group(list(line), timeout=timedelta(seconds=timeout_s))
            if tuple(sorted(ranks)) == line:
                mine.append(group)
    return mine
