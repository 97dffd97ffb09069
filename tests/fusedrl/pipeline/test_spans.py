import pytest

from fusedrl.pipeline import spans
from fusedrl.pipeline.clocks import Alignment
from fusedrl.pipeline.spans import RankSpans, gather_spans, within
from tests.distributed.pool import RankPool


def test_only_what_lies_in_the_last_step_counts() -> None:
    old, save = ("step", 0, 10), ("save_checkpoint", 10, 15)
    step = [("gen", 21, 24), ("step", 20, 30)]
    assert within([old, ("gen", 1, 2), save, *step], "step") == step
    assert within([save], "step") == [save]


def test_another_host_s_times_are_moved_to_rank_0_s_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "all_gather_object", lambda mine: [mine, mine | {"host": "b"}])
    monkeypatch.setattr(spans, "align", lambda hosts: Alignment((0, -100), (0, 5)))
    first, second = gather_spans([("gen", 200, 300)], [("wait", 250, 260)])
    assert first == RankSpans((("gen", 200, 300),), (("wait", 250, 260),))
    assert second == RankSpans((("gen", 100, 200),), (("wait", 150, 160),))


def test_every_rank_gets_all_ranks_spans_in_order(ranks: RankPool) -> None:
    for found in ranks.run("tests.fusedrl.pipeline.timeline_jobs:spans", world=2):
        assert found == [[("gen", rank, 10 + rank)] for rank in range(2)]
