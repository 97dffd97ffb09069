"""Process groups of one model, as the ProcessGroupCollection that Megatron's model, DDP and optimizer take.

Each model has its own collection, hence its own communicators: two models' collectives never share one. All ranks must
build the same collections in the same sequence. Expert parallelism is 1 here: its group holds one rank.
Importing this module installs megatron_patches.
"""

import copy
from collections.abc import Iterable, Sequence
from datetime import timedelta

import torch.distributed as dist

import megatron_patches
from fusedrl.parallel.layout import Layout, check_world
from fusedrl.parallel.pipeline_view import ReversedGroup, StageGroup
from fusedrl.parallel.team import current

megatron_patches.apply()

from megatron.core.process_groups_config import ProcessGroupCollection  # noqa: E402  (after the patches)

DEFAULT_TIMEOUT = timedelta(minutes=10)
# collection member -> the axes its groups span
SPANS = {
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "mp": "tp pp",
    "tp_cp": "tp cp",
    "dp_cp": "cp dp",  # gradients are summed over it: ranks of either kind hold parts of one sum over tokens
    "tp_dp_cp": "tp cp dp",
    "expt_tp": "tp",
    "tp_ep": "tp",
    "tp_ep_pp": "tp pp",
    "expt_dp": "cp dp",
    "intra_dp_cp": "cp dp",
    "intra_expt_dp": "cp dp",
    "intra_dist_opt": "tp cp dp pp",
    "cp": "cp",
    "ep": "",
    "pos_embd": "",
}


def build_groups(
    layout: Layout,
    *,
    ranks: Sequence[int] | None = None,
    reverse_pipeline: bool = False,
    placement: Sequence[int] | None = None,
    timeout: timedelta = DEFAULT_TIMEOUT,
    key: str = "layout",
) -> ProcessGroupCollection:
    """This rank's groups of one model; all None on a rank that holds no part of it. Collective over the whole job.

    ranks: of the job, where the layout's ranks lie, in increasing order; by default the current team's.
    With `reverse_pipeline` stage 0 sits on the last ranks: `collection.pp` is a view with a mirrored rank.
    The embedding group joins first and last stage (for tied embeddings) and is None on the stages between.
    placement: the column of each stage where it is not one stage a column; `groups_of_stage` gives a stage's view.
    """
    ranks = current().ranks if ranks is None else tuple(ranks)
    check_world(layout, len(ranks), key=key)
    maker = _GroupMaker(ranks, timeout)
    members = {name: maker.own_group(layout.rank_lists(axes)) for name, axes in SPANS.items()}
    ends = (0, -1) if placement is None else (placement[0], placement[-1])
    members["embd"] = maker.own_group(tuple(sorted({row[end] for end in ends})) for row in layout.rank_lists("pp"))
    if reverse_pipeline and members["pp"] is not None:
        members["pp"] = ReversedGroup(members["pp"])
    return ProcessGroupCollection(**members, inter_dist_opt=None)


def groups_of_stage(groups: ProcessGroupCollection, *, stage: int, stages: int) -> ProcessGroupCollection:
    """The same groups as one stage's module sees them: its pipeline rank is its stage."""
    view = copy.copy(groups)
    view.pp = StageGroup(groups.pp, stage=stage, stages=stages)
    return view


class _GroupMaker:
    """Makes groups in one sequence on all ranks; the same set of ranks gets one communicator within a collection."""

    def __init__(self, ranks: Sequence[int], timeout: timedelta) -> None:
        self._ranks, self._timeout = ranks, timeout
        self._made: dict[tuple[int, ...], dist.ProcessGroup] = {}

    def own_group(self, rank_lists: Iterable[tuple[int, ...]]) -> dist.ProcessGroup | None:
        """rank_lists: in terms of the layout."""
        mine = None
        for ranks in (tuple(self._ranks[rank] for rank in each) for each in rank_lists):
            if ranks not in self._made:
                self._made[ranks] = dist.new_group(list(ranks), timeout=self._timeout)
            if dist.get_rank() in ranks:
                mine = self._made[ranks]
        return mine
