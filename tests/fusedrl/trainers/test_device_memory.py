import pytest
import torch

from fusedrl.config.schema import ScheduleConfig
from fusedrl.trainers.device_memory import check_memory_share
from tests.distributed.pool import RankPool


@pytest.mark.parametrize(("before", "cap"), [(None, 150.0), (100.0, 100.0), (200.0, 150.0)])
def test_the_fullest_rank_sets_the_cap_and_it_only_falls(ranks: RankPool, before: float | None, cap: float) -> None:
    target = "tests.distributed.planning_jobs:cap_of"
    assert ranks.run(target, world=2, share=0.5, free_mib=[400, 300], before=before) == [cap, cap]


def test_a_share_of_no_device_is_one_line() -> None:
    cpu = torch.device("cpu")
    with pytest.raises(ValueError, match=r"^schedule.memory_share=0.5: the ranks run on cpu.*[^\n]$"):
        check_memory_share(ScheduleConfig(memory_share=0.5), cpu)
    check_memory_share(ScheduleConfig(), cpu)
    check_memory_share(ScheduleConfig(memory_share=0.5), torch.device("cuda"))
