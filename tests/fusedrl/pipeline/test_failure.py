import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist

from fusedrl.pipeline import failure
from fusedrl.pipeline.failure import Board, marked_grid, marked_row
from schedules.order import Op, Order


def row(count: int, *, stage: int) -> tuple[Op, ...]:
    return tuple(Op("actor", "F", m, stage) for m in range(count))


def test_one_op_of_one_column_is_marked() -> None:
    grid = marked_grid(Order((row(2, stage=0), row(2, stage=1))), column=1, op=Op("actor", "F", 1, 1))
    assert grid.splitlines() == [
        "  column 0: actor:F0@0 actor:F1@0",
        "  column 1: actor:F0@1 >>actor:F1@1<<",
    ]


def test_long_rows_are_cut_around_the_op() -> None:
    order = Order((row(100, stage=0),))
    grid = marked_grid(order, column=0, op=Op("actor", "F", 50, 0), around=1)
    assert grid == "  column 0: ... actor:F49@0 >>actor:F50@0<< actor:F51@0 ..."


def test_without_an_op_the_grid_is_shown_unmarked() -> None:
    assert ">>" not in marked_grid(Order((row(2, stage=0), ())), column=1, op=None)


def test_one_row_is_shown_like_in_the_grid() -> None:
    order = Order((row(2, stage=0), row(2, stage=1)))
    grid = marked_grid(order, column=1, op=Op("actor", "F", 1, 1))
    assert marked_row(order, column=1, op=Op("actor", "F", 1, 1)) == grid.splitlines()[1]


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    store = dist.HashStore()
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    return Board("failure")


def test_the_first_reason_stays_and_one_rank_tells(board: Board) -> None:
    assert board.reason() is None
    assert board.report("rank 1 broke") is None
    assert board.report("rank 0 lost rank 1") == "rank 1 broke"
    assert board.reason() == "rank 1 broke"
    assert [board.claim(rank) for rank in (0, 1, 0)] == [True, False, True]


def test_standings_are_those_that_ranks_left_within_the_time(board: Board) -> None:
    board.stand(2, "rank 2: computing")
    threading.Timer(0.1, board.stand, (3, "rank 3: waiting")).start()
    assert board.standings([2, 3], wait_s=10) == {2: "rank 2: computing", 3: "rank 3: waiting"}
    assert board.standings([2, 4], wait_s=0.1) == {2: "rank 2: computing"}


def test_others_wait_until_the_whole_is_told_but_not_for_ever(board: Board) -> None:
    begin = time.monotonic()
    board.wait_told(0.2)
    assert 0.2 <= time.monotonic() - begin < 2
    board.tell()
    board.wait_told(20.0)
    assert time.monotonic() - begin < 5


def test_a_store_that_is_gone_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, is_master=False, timeout=timedelta(seconds=5))
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: client)
    board = Board("failure")
    board.stand(1, "x")
    assert board.standings([1], wait_s=5) == {1: "x"}
    del server
    assert board.report("rank 0 broke") is None
    assert board.claim(0)
    assert board.reason() is None
    board.stand(0, "x")
    board.tell()
    assert board.standings([1], wait_s=0.1) == {}


class Silent:
    """A store that never answers (its process stands still), or fails at once (it is gone)."""

    def __init__(self, *, fails: bool) -> None:
        self.fails, self.calls, self.never = fails, 0, threading.Event()

    def compare_set(self, *arguments: str) -> bytes:
        self.calls += 1
        if not self.fails:
            self.never.wait()
        raise RuntimeError("broken pipe")

    check = get = set = compare_set


@pytest.mark.parametrize("fails", [True, False])
def test_a_store_that_does_not_answer_is_asked_once_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    store = Silent(fails=fails)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    monkeypatch.setattr(failure, "ANSWER_S", 60.0 if fails else 0.01)
    board = Board("failure")
    assert board.report("rank 1 lost rank 0") is None
    assert board.claim(1)
    assert board.reason() is None
    assert board.standings([0], wait_s=600.0) == {}
    board.tell()
    board.wait_told(600.0)
    assert store.calls == 1
    store.never.set()
