"""Errors of a pass, the picture that goes with them, and the board on which ranks tell each other.

    column 0: actor:F0@0 >>critic:B1@1<< actor:B0@0
    column 1: ...

The board lies in the job's store, which works while messages do not. The first rank that fails leaves its reason there;
every rank leaves where it stands; one collects that into one message, and the others end after it has told.
"""

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

import torch.distributed as dist

from schedules.order import Op, Order

Answer = TypeVar("Answer")
_POLL_S = 0.05
ANSWER_S = 5.0  # that the store has for an answer
TELL_S = 5.0  # that ranks which fail in another's wake give it to tell why


class PipelineError(RuntimeError):
    """An op or a message of a pass failed on this rank; the text names it and shows the grid.

    tells: whether this rank is the one that tells the whole; the others' errors follow from the same failure.
    """

    tells = True


class MessageTimeout(PipelineError):
    """A message did not come, or was not taken, within the limit."""


def marked_grid(order: Order, *, column: int, op: Op | None, around: int = 12) -> str:
    """All rows of an order, one op of one column marked; long rows are cut to `around` ops on each side of it."""
    place = order.rows[column].index(op) if op in order.rows[column] else 0
    return "\n".join(
        f"  column {number}: {_cut(row, place=place, op=op if number == column else None, around=around)}"
        for number, row in enumerate(order.rows)
    )


def marked_row(order: Order, *, column: int, op: Op | None, around: int = 12) -> str:
    """One column's row, one op marked, cut like the grid."""
    row = order.rows[column]
    return f"  column {column}: {_cut(row, place=row.index(op) if op in row else 0, op=op, around=around)}"


def _cut(row: Sequence[Op], *, place: int, op: Op | None, around: int) -> str:
    begin, end = max(0, place - around), place + around + 1
    names = [f">>{each}<<" if each == op else str(each) for each in row[begin:end]]
    before, after = "... " if begin else "", " ..." if end < len(row) else ""
    return f"{before}{' '.join(names)}{after}"


class Board:
    """What ranks tell each other about one executor's failure; `key` names it in the store.

    Nothing here raises: it runs while another error is under way, and the store may be gone with its rank. Once it
    is, it is not asked again: torch prints a page to the console for each call that fails.
    """

    def __init__(self, key: str) -> None:
        self._key, self._store = key, dist.distributed_c10d._get_default_store()
        self._gone = False

    def report(self, reason: str) -> str | None:
        """Leave a reason unless another rank did before; that rank's reason, or None when this is the first."""
        found = self._ask(lambda: str(self._store.compare_set(self._key, "", reason).decode()))
        return None if found == reason else found

    def claim(self, rank: int) -> bool:
        """Whether this is the rank that tells the whole: the first that asks, where the store answers."""
        found = self._ask(lambda: str(self._store.compare_set(f"{self._key}/teller", "", str(rank)).decode()))
        return found is None or found == str(rank)

    def reason(self) -> str | None:
        """The reason of the first rank that failed, if one did."""
        return self._read(self._key)

    def stand(self, rank: int, text: str) -> None:
        """Leave where a rank stands."""
        self._write(f"{self._key}/{rank}", text)

    def standings(self, ranks: Sequence[int], *, wait_s: float) -> dict[int, str]:
        """Where ranks stand, as far as they tell within the time."""
        found: dict[int, str] = {}
        ends = time.monotonic() + wait_s
        while len(found) < len(ranks) and time.monotonic() < ends and not self._gone:
            for rank in (rank for rank in ranks if rank not in found):
                if (text := self._read(f"{self._key}/{rank}")) is not None:
                    found[rank] = text
            time.sleep(_POLL_S)
        return found

    def tell(self) -> None:
        """The whole is told; the other ranks may end."""
        self._write(f"{self._key}/told", "1")

    def wait_told(self, limit_s: float = TELL_S) -> None:
        """A launcher ends all ranks with the first that ends: let the one that knows the cause tell it before."""
        ends = time.monotonic() + limit_s
        while self._read(f"{self._key}/told") is None and time.monotonic() < ends and not self._gone:
            time.sleep(_POLL_S)

    def _read(self, key: str) -> str | None:
        return self._ask(lambda: str(self._store.get(key).decode()) if self._store.check([key]) else None)

    def _write(self, key: str, text: str) -> None:
        self._ask(lambda: self._store.set(key, text))

    def _ask(self, call: Callable[[], Answer]) -> Answer | None:
        """None where the store is gone. In a thread: a store whose process stands still never answers, nor fails."""
        if self._gone:
            return None
        answers: SimpleQueue[tuple[bool, Answer | None]] = SimpleQueue()
        threading.Thread(target=_answer, args=(call, answers), name="fusedrl-board", daemon=True).start()
        try:
            there, found = answers.get(timeout=ANSWER_S)
        except Empty:
            there, found = False, None
        self._gone = self._gone or not there
        return found


def _answer(call: Callable[[], Answer], answers: "SimpleQueue[tuple[bool, Answer | None]]") -> None:
    try:
        answers.put((True, call()))
    except RuntimeError:  # the store went with its rank
        answers.put((False, None))
