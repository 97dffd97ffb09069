"""The arrays of the compiled search for a problem, the slow truth about them, and moves drawn at random."""

import numpy as np
from hypothesis import strategies as st

from schedules.builders import greedy
from schedules.graph import build_graph, every_split
from schedules.passes import split_backward
from schedules.search.layout import (
    ACQUIRE,
    AFTER,
    AFTER_END,
    DURATION,
    PLACE,
    POSITION,
    RANK,
    RELEASE,
    SLOT,
    SLOT_END,
    START,
    TAIL,
    lay_out,
)
from schedules.search.longest import settle
from schedules.search.moves import change_of_excess, is_legal, make_move, take_segment

SEEDS = st.integers(0, 2**20)


def laid_out(problem, order=None):
    """A problem's order (greedy's), every backward split that may be."""
    order = split_backward(problem, order or greedy(problem))
    return lay_out(build_graph(problem, split=every_split(problem)), order)


def settled(layout, *, cap=np.inf):
    return settle(*layout.arrays, layout.sequence, layout.over, cap)


def afresh(layout, *, cap=np.inf):
    """The same rows, laid out and settled anew, with its makespan."""
    new = lay_out(layout.graph, layout.order(layout.rows))
    new.real[:, DURATION] = layout.real[:, DURATION]
    return new, settled(new, cap=cap)


def edges(layout):
    """(i, j, lag) of all that waits in the present rows: j for i."""
    whole = layout.whole
    for i in range(len(whole)):
        for k in range(whole[i, AFTER], whole[i, AFTER_END]):
            yield i, int(layout.link[k]), float(layout.lag[k])
    for rank, length in enumerate(layout.lengths):
        for place in range(length - 1):
            yield int(layout.rows[rank, place]), int(layout.rows[rank, place + 1]), 0.0


def check_rows(layout):
    """Each op stands once in each of its ranks' rows, where its slots say."""
    for i in range(len(layout.whole)):
        slots = layout.slots[layout.whole[i, SLOT] : layout.whole[i, SLOT_END]]
        assert tuple(slots[:, RANK]) == layout.graph.ranks_of(i)
        assert [layout.rows[rank, place] for rank, place in slots] == [i] * len(slots)
        assert all(place < layout.lengths[rank] for rank, place in slots)
    assert sum(layout.lengths) == len(layout.slots)


def check_sequence(layout):
    """A sequence of all ops, `POSITION` its inverse, in which none comes before what it waits for."""
    position = layout.whole[:, POSITION]
    assert layout.sequence[position].tolist() == list(range(len(position)))
    assert all(position[i] < position[j] for i, j, _ in edges(layout))


def memory_of(layout, *, cap):
    """Held memory before each op and excess, per rank, by their definition."""
    held, over = [], []
    for rank, length in enumerate(layout.lengths):
        ops = layout.rows[rank, :length]
        taken, given = layout.real[ops, ACQUIRE], layout.real[ops, RELEASE]
        held.append([float(sum(taken[:p]) - sum(given[:p])) for p in range(length)])
        above = [h + t - cap for h, t in zip(held[-1], taken, strict=True) if t > 0 and h + t > cap]
        over.append(float(sum(above)))
    return held, over


class Mover:
    """Moves in a settled layout, with the scratch arrays that they need."""

    def __init__(self, layout, *, cap=np.inf, seed=0):
        self.layout, self.cap = layout, cap
        size = len(layout.whole) + 4 * len(layout.lengths) + 8
        self.segment, self.touched, self.ends = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size)
        self.buffer, self.dirty = np.zeros(len(layout.whole), np.int64), np.zeros(len(layout.whole), np.uint8)
        self._random = np.random.default_rng(seed)

    def draw(self, *, reach=6, apart=False):
        """(rank, source, target) of a legal move, None where no such was met."""
        layout = self.layout
        for _ in range(30):
            rank = int(self._random.integers(len(layout.lengths)))
            if layout.lengths[rank] < 2:
                continue
            source = int(self._random.integers(layout.lengths[rank]))
            target = source + int(self._random.integers(-reach, reach + 1))
            if target == source or not 0 <= target < layout.lengths[rank]:
                continue
            if is_legal(layout.whole, layout.link, layout.slots, layout.rows, rank, source, target, apart):
                return rank, source, target
        return None

    def take(self, rank, source, target):
        return take_segment(self.layout.rows, self.segment, rank, source, target)

    def excess(self, rank, source, target):
        layout, count = self.layout, self.take(rank, source, target)
        low = min(source, target)
        return change_of_excess(layout.real, layout.rows, layout.held, self.segment, count, rank, low, self.cap)

    def make(self, rank, source, target):
        layout = self.layout
        state = (layout.sequence, layout.over, self.cap, self.segment, self.touched, self.buffer, self.dirty)
        return make_move(*layout.arrays, *state, rank, source, target)


def walk(problem, *, seed, cap=np.inf, steps=12, apart=False, least=0.0):
    """Yields (mover, move) along a walk of legal moves; the caller makes them. least: added to every duration."""
    layout = laid_out(problem)
    layout.real[:, DURATION] += least
    settled(layout, cap=cap)
    mover = Mover(layout, cap=cap, seed=seed)
    for _ in range(steps):
        move = mover.draw(apart=apart)
        if move is None:
            return
        yield mover, move


def copy_of(layout):
    """All arrays that a move may change."""
    fields = (layout.whole, layout.real, layout.slots, layout.rows, layout.held, layout.sequence, layout.over)
    return [field.copy() for field in fields]


def equal(layout, other):
    """Books of two layouts of the same rows: times to the last bit, memory up to sums in floating point."""
    for column in (START, TAIL):
        assert layout.real[:, column].tolist() == other.real[:, column].tolist()
    for rank, length in enumerate(layout.lengths):
        np.testing.assert_allclose(layout.held[rank, :length], other.held[rank, :length], atol=1e-9)
    np.testing.assert_allclose(layout.over, other.over, atol=1e-9)
    assert layout.slots[:, PLACE].tolist() == other.slots[:, PLACE].tolist()
