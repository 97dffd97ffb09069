import pytest

from fusedrl.bench.emulated import Emulation, emulated_models
from fusedrl.bench.fold import with_weight_part
from schedules.problem import Model, Problem, ProblemError
from tests.distributed.pool import RankPool
from tests.fusedrl.bench.emulation_jobs import crossed, oversleep, two_models

JOBS = "tests.fusedrl.bench.emulation_jobs"


@pytest.mark.parametrize(("payload", "split"), [(4, False), (300_000, False), (4096, True)])
def test_every_op_takes_its_time_and_messages_arrive(ranks: RankPool, payload: int, split: bool) -> None:
    problem = with_weight_part(two_models(2))
    (ms, _) = ranks.run(f"{JOBS}:emulate", world=2, unit_ms=1.0, payload=payload, split=split)
    assert len(ms) == 2 * (3 * 2 + 4 * 2 + 2 + (3 + 4) * split)
    for name, taken in ms.items():
        model, kind = problem.model(name.split(":")[0]), name.split(":")[1][0]
        planned = model.duration(kind, 0, 0, split=split)  # type: ignore[arg-type]
        assert planned <= taken, name
    shortest = min(taken for name, taken in ms.items() if name.startswith("ref:F"))
    assert shortest < 1.5  # the others may have waited for a core
    shortest_backward = min(taken for name, taken in ms.items() if name.startswith("critic:B"))
    assert shortest_backward < (2.0 if split else 3.5)


def test_a_tensor_of_another_micro_batch_is_noticed() -> None:
    assert crossed() == [
        "actor: stage 1 in F1 received the tensor of micro-batch 1 to 2",
        "actor: stage 1 in F2 received the tensor of micro-batch 1 to 2",
        "actor: stage 0 in B2 received the tensor of micro-batch 1 to 1",
    ]


def test_a_stage_on_several_columns_is_refused() -> None:
    problem = Problem(3, (Model("actor", [0, [1, 2]], 1, forward=1.0, backward=1.0),))
    with pytest.raises(ProblemError, match=r"actor: stage 1 lies on columns \(1, 2\)"):
        emulated_models(problem, rank=0, emulation=Emulation(1.0, payload=4))


def test_sleeps_end_after_their_deadline_and_some_right_then() -> None:
    for ms in (0.03, 1.0):
        missed = oversleep(20, ms=ms)
        assert min(missed) >= 0
        assert sorted(missed)[5] < 0.5
