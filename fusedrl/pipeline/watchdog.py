"""Where a rank stands in its pass, and a thread that says so when something went wrong.

When any rank has failed, the watchdogs of the others log this rank's row of the grid with its op marked and each peer's
last messages, and leave a line on the board, also where the rank is stuck in its own computing. A rank that has
computed at one op for longer than the limit is reported as one that failed; waits for messages have their own limit.
"""

import logging
import threading
import time

from fusedrl.pipeline.failure import Board, marked_row
from fusedrl.pipeline.messages import Mailbox
from fusedrl.pipeline.program import Program
from schedules.lower import Compute
from schedules.order import Op

logger = logging.getLogger("fusedrl.pipeline")
COMPUTING = "computing"
COLLECT_S = 3.0  # that the first rank waits for the others' standings; watchdogs look every second


class Standing:
    """This rank's place in a pass. `number` is the instruction that runs; the executor moves it on."""

    def __init__(self, program: Program, *, rank: int, column: int, mailbox: Mailbox) -> None:
        self.program, self.rank, self.column = program, rank, column
        self.number = 0
        self._instructions, self._mailbox = program.instructions[column], mailbox
        self._lock, self._told = threading.Lock(), False

    @property
    def place(self) -> str:
        """rank 2 (column 2) at actor:F3@2"""
        ended = self.number >= len(self._instructions)
        at = "end of the pass" if ended else str(self._instructions[self.number])
        return f"rank {self.rank} (column {self.column}) at {at}"

    @property
    def activity(self) -> str:
        """What the rank does there: computing, or waiting for a message."""
        return self._mailbox.waiting or COMPUTING

    @property
    def op(self) -> Op | None:
        """The op that runs, or the next one after a send or receive (the last one, at the end)."""
        ops = [each.op for each in self._instructions[self.number :] if isinstance(each, Compute)]
        before = [each.op for each in self._instructions[: self.number] if isinstance(each, Compute)]
        return ops[0] if ops else before[-1] if before else None

    def tell(self, reason: str, *, board: Board) -> None:
        """Log the reason, this rank's row with its op marked and each peer's last messages; once a pass."""
        with self._lock:
            if self._told:
                return
            self._told = True
        row = marked_row(self.program.order, column=self.column, op=self.op)
        logger.error("%s", "\n".join([reason, row, *(f"  {line}" for line in self._mailbox.last_messages())]))
        board.stand(self.rank, reason)


class Watchdog:
    """Watches one pass of this rank: `with Watchdog(...):`. limit: seconds that an op may compute."""

    def __init__(self, standing: Standing, *, board: Board, limit: float, every: float = 1.0) -> None:
        self._standing, self._board, self._limit = standing, board, limit
        self._every = min(every, limit / 4)
        self._done = threading.Event()
        self._since = time.monotonic()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, name="fusedrl-watchdog", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _watch(self) -> None:
        seen: tuple[int, str] | None = None
        while not self._done.wait(self._every):
            now = self._standing.number, self._standing.activity
            if now != seen:
                seen, self._since = now, time.monotonic()
            seconds = time.monotonic() - self._since
            reason = f"{self._standing.place}: {self._standing.activity} for {seconds:.0f} s"
            stuck = now[1] == COMPUTING and seconds > self._limit
            if stuck:
                self._board.report(f"{reason}, the limit is {self._limit:g} s")
            if stuck or self._board.reason() is not None:
                if not self._done.is_set():
                    self._standing.tell(reason, board=self._board)
                return
