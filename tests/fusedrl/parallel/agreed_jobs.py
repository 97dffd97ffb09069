"""What ranks raise where one of them, or none, has an error."""

import torch.distributed as dist

from fusedrl.parallel.agreed import AgreedError, agree, tried


def raised(*, failing: list[int], members: list[int]) -> tuple[str, bool] | None:
    """(message, whether this rank tells) of an agreement of some ranks; None where nothing was raised."""
    group = dist.new_group(members)

    def work() -> None:
        if dist.get_rank() in failing:
            raise OSError(28, "No space left on device", "file")

    try:
        if dist.get_rank() in members:
            agree(tried(work), what="the file could not be written", group=group)
    except AgreedError as error:
        return str(error), error.tells
    return None
