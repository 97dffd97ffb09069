"""What goes wrong on one rank of a group and ends the run is raised alike on all of them, and told once.

    error = tried(lambda: file.write(...))               # on whichever rank has something to write
    agree(error, what="the model could not be written")  # by all ranks of the group: AgreedError where one failed

A rank that raised alone would leave the others in their next collective, and they would tell of a lost rank instead.
"""

from collections.abc import Callable

import torch.distributed as dist

from fusedrl.parallel.comm import all_gather_object
from fusedrl.parallel.team import current


class AgreedError(RuntimeError):
    """Raised alike on every rank of a group. tells: whether this is the rank that tells the user."""

    def __init__(self, message: str, *, tells: bool) -> None:
        super().__init__(message)
        self.tells = tells


def tried(do: Callable[[], object], *, catching: tuple[type[Exception], ...] = (OSError,)) -> str | None:
    """Why it could not be done, or None."""
    try:
        do()
    except catching as error:
        return str(error) or type(error).__name__
    return None


def agree(error: str | None, *, what: str, group: dist.ProcessGroup | None = None) -> None:
    """Raises AgreedError where a rank of the group has an error. A collective of the group; None: the current team."""
    group = current().group if group is None else group
    found = {rank: each for rank, each in enumerate(all_gather_object(error, group=group)) if each is not None}
    if found:
        member, reason = next(iter(found.items()))
        rank = member if group is None else dist.get_global_rank(group, member)
        raise AgreedError(f"{what}: rank {rank}: {reason}", tells=dist.get_rank(group) == 0)
