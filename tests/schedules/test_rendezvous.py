"""The rendezvous check: known hangs are found and their cycle named."""

import pytest

from schedules.lower import Compute, Message, Recv, Send
from schedules.order import Op, OrderError
from schedules.rendezvous import check_rendezvous


def message(kind, microbatch, stage, *, src, dst, model="m"):
    return Message(model, kind, microbatch, stage, stage + (1 if kind == "F" else -1), src, dst)


def compute(kind, microbatch, stage):
    return Compute(Op("m", kind, microbatch, stage))


def test_both_ranks_send_first():
    up, down = message("F", 0, 0, src=0, dst=1, model="a"), message("F", 0, 0, src=1, dst=0, model="b")
    with pytest.raises(
        OrderError, match=r"rank 0 at send a:F0@0->1 waits for rank 1 at send b:F0@0->1 waits for rank 0"
    ):
        check_rendezvous([[Send(up), Recv(down)], [Send(down), Recv(up)]])
    check_rendezvous([[Send(up), Recv(down)], [Recv(up), Send(down)]])


def test_crossed_messages_of_one_pair():
    first, second = (message("F", m, 0, src=0, dst=1) for m in (0, 1))
    with pytest.raises(OrderError, match=r"send m:F0@0->1 waits for rank 1 at recv m:F1@0->1"):
        check_rendezvous([[Send(first), Send(second)], [Recv(second), Recv(first)]])


def test_two_ranks_with_four_stages_and_swapped_receives_hang():
    """github.com/pytorch/pytorch/issues/172668: receive before send on odd ranks does not help here.

    Stages 0, 2 on rank 0 and 1, 3 on rank 1: 3SEND_B0 waits for a rank that is at 0SEND_F2, and the other way round.
    """
    f1, f2 = message("F", 1, 2, src=0, dst=1), message("F", 2, 0, src=0, dst=1)
    b0, b1 = message("B", 0, 3, src=1, dst=0), message("B", 1, 3, src=1, dst=0)
    rank0 = [Send(f1), compute("F", 2, 0), Send(f2), Recv(b0), compute("B", 0, 2), Recv(b1)]
    rank1 = [Recv(f1), Send(b0), compute("F", 1, 3), compute("B", 1, 3), Recv(f2), Send(b1), compute("F", 2, 1)]
    with pytest.raises(OrderError, match=r"rank 0 at send m:F2@0->1 waits for rank 1 at send m:B0@3->2"):
        check_rendezvous([rank0, rank1])
    agreed = [Recv(f1), compute("F", 1, 3), compute("B", 1, 3), Recv(f2), Send(b0), Send(b1), compute("F", 2, 1)]
    check_rendezvous([rank0, agreed])


def test_cycle_over_three_ranks_is_named_in_full():
    ring = [message("F", 0, r, src=r, dst=(r + 1) % 3) for r in range(3)]
    with pytest.raises(OrderError, match=r"rank 0 at .* rank 1 at .* rank 2 at .* rank 0 at"):
        check_rendezvous([[Send(ring[r]), Recv(ring[r - 1])] for r in range(3)])


def test_message_that_nobody_receives():
    lost = message("F", 0, 0, src=0, dst=1)
    with pytest.raises(OrderError, match=r"rank 0 at send m:F0@0->1 waits for rank 1, whose list has ended"):
        check_rendezvous([[Send(lost)], [compute("F", 0, 1)]])
