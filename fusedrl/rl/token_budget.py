"""Micro-batches by a budget of tokens: samples of any lengths -> few micro-batches, of like work on every replica.

    lengths 9 8 5 4 4 3 2 1, budget 18:   [9 8]=18 [5 4 4]=15 [3 2 1]=9            rows x longest; 3 are needed
    on 2 replicas, 2 on each:             [9]=9 [8]=8 [5 4 4]=15 [3 2 1]=9  ->  15 + 8 | 9 + 9

A row is padded to the longest of its micro-batch, so a micro-batch costs rows x longest tokens: that, padding included,
is what memory holds and what the budget bounds. Where ranks share the tokens of a row, lengths are also padded to a
multiple that they divide. Under such a cost, filling micro-batches with the longest samples that
are left needs the fewest of them: whichever one holds the longest sample has room for no more rows than budget //
longest, and takes the most from the rest by taking the next longest. Since that holds for any budget, the smallest
budget that still needs no more micro-batches is the smallest possible size of the largest one.
"""

from bisect import bisect_left
from collections.abc import Sequence

from fusedrl.rl.partition import karmarkar_karp


def pack(
    lengths: Sequence[int],
    *,
    tokens: int,
    replicas: int = 1,
    multiple: int = 1,
    pads_to: int = 1,
    key: str = "tokens",
) -> list[list[list[int]]]:
    """Indices into `lengths`, ascending, of each micro-batch of each replica; every sample is in exactly one.

    Every replica gets the same number of micro-batches, the least that the budget of `tokens` allows, rounded up to
    `multiple`; the largest is as small as can be with that many. The m-th ones of all replicas are alike. Lengths count
    as multiples of `pads_to`.
    Raises ValueError where a sample is longer than the budget, whose `key` it names, or samples are too few.
    """
    assert min(lengths) >= 1
    longest, lengths = max(lengths), [_round_up(length, of=pads_to) for length in lengths]
    if max(lengths) > tokens:
        padded = f", {max(lengths)} with padding" if max(lengths) > longest else ""
        raise ValueError(
            f"{key}={tokens} is below the {longest} tokens of the longest sample{padded}; raise it to {max(lengths)}"
        )
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    descending = [lengths[i] for i in order]
    count = _round_up(len(_fill(descending, tokens)), of=replicas * multiple)
    if count > len(lengths):
        raise ValueError(
            f"{len(lengths)} samples do not fill {count} micro-batches, whose number is a multiple of {multiple} on "
            f"each of {replicas} data-parallel replicas; take at least {count} samples"
        )
    pieces = _exactly(count, _fill(descending, _least_budget(descending, tokens, count=count)), descending)
    pieces.sort(key=lambda piece: (-_padded(piece, descending), piece.start))
    shares = karmarkar_karp([_padded(piece, descending) for piece in pieces], parts=replicas, equal_size=True)
    return [[sorted(order[i] for i in pieces[j]) for j in _small_at_both_ends(share)] for share in shares]


def _fill(descending: Sequence[int], tokens: int) -> list[range]:
    """The fewest micro-batches within `tokens`, as ranges of the samples in descending order of length."""
    pieces: list[range] = []
    begin = 0
    while begin < len(descending):
        end = min(begin + tokens // descending[begin], len(descending))
        pieces.append(range(begin, end))
        begin = end
    return pieces


def _least_budget(descending: Sequence[int], tokens: int, *, count: int) -> int:
    """The smallest budget that `count` micro-batches suffice for."""
    budgets = range(descending[0], tokens + 1)
    return budgets[bisect_left(budgets, True, key=lambda budget: len(_fill(descending, budget)) <= count)]


def _exactly(count: int, pieces: list[range], descending: Sequence[int]) -> list[range]:
    """Halves the largest that has two rows until there are `count`."""
    while len(pieces) < count:
        piece = max((each for each in pieces if len(each) > 1), key=lambda each: _padded(each, descending))
        at, middle = pieces.index(piece), (piece.start + piece.stop) // 2
        pieces[at : at + 1] = [range(piece.start, middle), range(middle, piece.stop)]
    return pieces


def _padded(piece: range, descending: Sequence[int]) -> int:
    """Tokens of a micro-batch, padding included."""
    return len(piece) * descending[piece.start]


def _small_at_both_ends(descending: list[int]) -> list[int]:
    """Large micro-batches in the middle: what a pipeline's ranks wait for at its start and end are small ones."""
    return descending[::2][::-1] + descending[1::2]


def _round_up(number: int, *, of: int) -> int:
    return -(-number // of) * of
