"""The live rows of an engine: who sits where, how long each is, what was sampled, who is done.

All per-row state is in tensors, so a decode step touches no row in Python; only rows that enter or leave cost Python
work. Live rows are the first `len(rows)` ones: `remove` fills each gap with one of the last live rows and says which
rows it moved, so that the cache can follow.

A row's `length` counts all tokens of its sequence; the last one, just sampled, has no keys and values in the cache yet.

Legend: R live rows, S row slots, T positions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fusedrl.rollout.randomness import sample_keys, uniform
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import Controls

_LENGTH, _LIMIT, _KEY, _STOP_SET, _LAST = range(5)


class Rows:
    """Row slots of one engine; `slots` of them, sequences of at most `max_length` tokens."""

    def __init__(self, *, slots: int, max_length: int, vocab_size: int, device: torch.device | str = "cpu") -> None:
        self._device, self._vocab_size, self._max_length = device, vocab_size, max_length
        self._state = torch.zeros(5, slots, dtype=torch.int64, device=device)
        self._tokens_ST = torch.zeros(slots, max_length, dtype=torch.int64, device=device)
        self._logprobs_ST = torch.zeros(slots, max_length, dtype=torch.float32, device=device)
        self._finished_S = torch.zeros(slots, dtype=torch.bool, device=device)
        self._slot_S = torch.arange(slots, device=device)
        self._stop_sets: dict[frozenset[int], int] = {}
        self._stop_table = torch.zeros(0, vocab_size, dtype=torch.bool, device=device)
        self._controls: Controls | None = None
        self.requests: list[Request] = []

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def last_token_R(self) -> Tensor:
        return self._state[_LAST, : len(self)]

    @property
    def length_R(self) -> Tensor:
        return self._state[_LENGTH, : len(self)]

    def controls(self) -> Controls:
        """Sampling parameters of the live rows."""
        if self._controls is None:
            params = [request.params for request in self.requests]
            self._controls = Controls.of(params, vocab_size=self._vocab_size, device=self._device)
        return self._controls

    def uniforms(self) -> Tensor:
        """u_R for the next token of the live rows."""
        state = self._state[:, : len(self)]
        return uniform(state[_KEY], state[_LENGTH])

    def append(self, requests: Sequence[Request]) -> None:
        """Seat requests behind the live rows."""
        if not requests:
            return
        first, last = len(self), len(self) + len(requests)
        columns = torch.stack(
            [
                torch.tensor([len(r.tokens) for r in requests]),
                torch.tensor([self._limit(r) for r in requests]),
                sample_keys([(r.params.seed, r.params.step, r.sample_id) for r in requests]),
                torch.tensor([self._stop_set(r.params.stop_token_ids) for r in requests]),
                torch.tensor([r.tokens[-1] for r in requests]),
            ]
        )
        self._state[:, first:last] = columns.to(self._device)
        self._finished_S[first:last] = False
        self.requests.extend(requests)
        self._controls = None

    def record(self, token_R: Tensor, logp_R: Tensor) -> None:
        """Take the sampled tokens of the live rows; mark the rows that are done."""
        rows = len(self)
        length, limit, _, stop_set, last_token = self._state[:, :rows].unbind(0)
        flat_R = self._slot_S[:rows] * self._max_length + length
        self._tokens_ST.view(-1).index_copy_(0, flat_R, token_R)
        self._logprobs_ST.view(-1).index_copy_(0, flat_R, logp_R)
        last_token.copy_(token_R)
        length.add_(1)
        torch.logical_or(self._stop_table[stop_set, token_R], length >= limit, out=self._finished_S[:rows])

    def finished(self) -> list[int]:
        """Indices of the live rows that are done."""
        return self._finished_S[: len(self)].nonzero().flatten().tolist()

    def completion(self, row: int) -> Completion:
        """What a finished row generated."""
        request = self.snapshot(row)
        stopped = bool(request.response) and request.response[-1] in request.params.stop_token_ids
        return Completion(
            sample_id=request.sample_id,
            prompt=request.prompt,
            tokens=request.response,
            logprobs=request.logprobs,
            finish_reason="stop" if stopped else "length",
        )

    def snapshot(self, row: int) -> Request:
        """The row as a request that continues it: on another engine, or here after its cache was given up."""
        request, length = self.requests[row], int(self._state[_LENGTH, row])
        start = len(request.tokens)
        return Request(
            sample_id=request.sample_id,
            prompt=request.prompt,
            params=request.params,
            response=request.response + tuple(self._tokens_ST[row, start:length].tolist()),
            logprobs=request.logprobs + tuple(self._logprobs_ST[row, start:length].tolist()),
        )

    def remove(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Drop rows. Returns (source, target): each live row `source[i]` was moved onto `target[i]`."""
        gone, left = set(rows), len(self) - len(rows)
        targets = [row for row in sorted(gone) if row < left]
        sources = [row for row in range(left, len(self)) if row not in gone]
        source, target = (torch.tensor(x, dtype=torch.int64, device=self._device) for x in (sources, targets))
        if targets:
            self._state[:, target] = self._state[:, source]
            for per_row in (self._tokens_ST, self._logprobs_ST, self._finished_S):
                per_row[target] = per_row[source]
        for from_row, to_row in zip(sources, targets, strict=True):
            self.requests[to_row] = self.requests[from_row]
        del self.requests[left:]
        self._controls = None
        return source, target

    def _limit(self, request: Request) -> int:
        return min(len(request.prompt) + request.params.max_tokens, self._max_length)

    def _stop_set(self, ids: frozenset[int]) -> int:
        """Row of the stop table for this set of ids, made on first sight."""
        if ids not in self._stop_sets:
            outside = [i for i in ids if not 0 <= i < self._vocab_size]
            if outside:
                raise ValueError(f"stop token ids {outside} lie outside the vocabulary of {self._vocab_size}")
            row_V = torch.zeros(1, self._vocab_size, dtype=torch.bool, device=self._device)
            row_V[0, sorted(ids)] = True
            self._stop_sets[ids] = len(self._stop_sets)
            self._stop_table = torch.cat([self._stop_table, row_V])
        return self._stop_sets[ids]
