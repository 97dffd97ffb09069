"""One batch in flight: its rows, their cache, and who gets a row or loses it.

Rows are seated in three ways: with keys and values that came along (from another engine), with those of a live row of
the same prompt, or by a prefill. The first two lack the keys and values of their last token alone, so they join the
next decode like rows that have been here all the time.

    |  rows that stayed  |  cache came along  |  prompt of a live row  |  to be prefilled  |
    |<-------------------------- decode ----------------------------->|<---- prefill ---->|

Where the cache is bounded, the youngest rows give way when the rest grow: their tokens so far become a request again.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fusedrl.rollout.cache import BLOCK, CacheShape, KeyValueCache
from fusedrl.rollout.decoder import Decode, Prefill
from fusedrl.rollout.links import Drawn
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.rows import Rows


@dataclass(frozen=True, eq=False)
class Waiting:
    """A request that waits for a row; kv_LNG2D: its keys and values, the last token's aside, where they came along."""

    request: Request
    kv_LNG2D: Tensor | None = None


@dataclass(frozen=True)
class Seated:
    """What one turn has to run, and what was saved or lost on the way."""

    parts: tuple[Prefill | Decode, ...]
    prefill_tokens: int  # each distinct prompt once, padding aside
    shared_tokens: int  # prompt tokens copied from live rows


class Lane:
    """A batch of up to `shape.rows` rows. `drawn`: the tokens of its last turn, until they are recorded."""

    def __init__(self, shape: CacheShape, *, vocab_size: int, prefill_tokens: int) -> None:
        self.cache = KeyValueCache(shape)
        self.rows = Rows(slots=shape.rows, max_length=shape.max_length, vocab_size=vocab_size, device=shape.device)
        self.drawn: Drawn | None = None
        self._shape, self._prefill_tokens = shape, prefill_tokens
        self._longest: int | None = None

    def record(self, token_R: Tensor, logp_R: Tensor) -> list[Completion]:
        """Take the tokens of a turn; the samples that are done leave."""
        self.rows.record(token_R, logp_R)
        self._longest = None
        finished = self.rows.finished()
        completions = [self.rows.completion(row) for row in finished]
        self.drop(finished)
        return completions

    def drop(self, rows: Sequence[int]) -> None:
        if rows:
            source, target = self.rows.remove(rows)
            self._longest = None
            if len(source):
                self.cache.move(source=source, target=target, length=self.longest)

    @property
    def longest(self) -> int:
        """Tokens of the longest row, 0 without any; read from the device once for each change."""
        if self._longest is None:
            self._longest = int(self.rows.length_R.max()) if len(self.rows) else 0
        return self._longest

    def preempt(self, ages: Mapping[int, int]) -> list[Request]:
        """Give up the youngest rows until the next token of the others fits; as requests, oldest first.

        ages: sample id -> when it came; smaller is older.
        """
        if len(self.rows) <= self.cache.rows_for(self.longest):
            return []
        lengths = self.rows.length_R.tolist()
        oldest_first = sorted(range(len(self.rows)), key=lambda row: ages[self.rows.requests[row].sample_id])
        kept, longest = 0, 0
        for row in oldest_first:
            longest = max(longest, lengths[row])
            if kept + 1 > self.cache.rows_for(longest):
                break
            kept += 1
        given_up = [self.rows.snapshot(row) for row in oldest_first[kept:]]
        self.drop(oldest_first[kept:])
        return given_up

    def take(self, waiting: deque[Waiting], *, most: int) -> list[Waiting]:
        """Who of those that wait gets a row now, first come first served, `most` rows at most in all.

        Rows keep a block of room to grow, or the next step would take back what this one gave.
        """
        taken: list[Waiting] = []
        longest = self.longest
        while waiting:
            rows = len(self.rows) + len(taken)
            longest = max(longest, len(waiting[0].request.tokens))
            roomy = min(longest + BLOCK, self._shape.max_length)
            if rows >= most or rows >= (self.cache.rows_for(roomy) if rows else 1):
                break
            taken.append(waiting.popleft())
        return taken

    def seat(self, taken: Sequence[Waiting]) -> Seated:
        """Give rows to those taken; what is to be run for all rows of the lane."""
        kept = len(self.rows)
        longest = max([self.longest, *(len(w.request.tokens) for w in taken)])
        self.cache.arrange(rows=kept + len(taken), length=longest, kept=kept)
        prompts = {request.prompt: row for row, request in enumerate(self.rows.requests)} if taken else {}
        moved = [w for w in taken if w.kv_LNG2D is not None]
        others = [w.request for w in taken if w.kv_LNG2D is None]
        shared = [request for request in others if not request.response and request.prompt in prompts]
        fresh = [request for request in others if request.response or request.prompt not in prompts]
        for row, w in enumerate(moved, start=kept):
            assert w.kv_LNG2D is not None
            self.cache.unpack(row, w.kv_LNG2D)
        self._copy_prompts(shared, first_row=kept + len(moved), prompts=prompts)
        self.rows.append([*(w.request for w in moved), *shared])
        self._longest = None
        return Seated(
            parts=(*self._decode(), *self._prefills(fresh)),
            prefill_tokens=sum(map(len, {request.tokens for request in fresh})),
            shared_tokens=sum(len(request.prompt) - 1 for request in shared),
        )

    def _copy_prompts(
        self, shared: Sequence[Request], *, first_row: int, prompts: Mapping[tuple[int, ...], int]
    ) -> None:
        targets: dict[tuple[int, ...], list[int]] = {}
        for row, request in enumerate(shared, start=first_row):
            targets.setdefault(request.prompt, []).append(row)
        device = self._shape.device
        for prompt, rows in targets.items():
            target = torch.tensor(rows, device=device)
            source = torch.full_like(target, prompts[prompt])
            self.cache.move(source=source, target=target, length=len(prompt) - 1)

    def _decode(self) -> Iterator[Decode]:
        if len(self.rows):
            position_R = self.rows.length_R - 1
            yield Decode(self.rows.last_token_R, position_R, length=self.longest)

    def _prefills(self, requests: Sequence[Request]) -> Iterator[Prefill]:
        """Seats the requests chunk by chunk; one prompt each for those with equal tokens."""
        device = self._shape.device
        for groups in _chunks(requests, budget=self._prefill_tokens):
            prompts = [group[0].tokens for group in groups]
            longest = max(map(len, prompts))
            prompt_R = [index for index, group in enumerate(groups) for _ in group]
            shared = len(prompt_R) > len(prompts)
            part = Prefill(
                tokens_PT=torch.tensor([[*p, *[0] * (longest - len(p))] for p in prompts], device=device),
                lengths_P=torch.tensor([len(p) for p in prompts], device=device),
                first_row=len(self.rows),
                prompt_R=torch.tensor(prompt_R, device=device) if shared else None,
            )
            self.rows.append([request for group in groups for request in group])
            self._longest = None
            yield part


def _chunks(requests: Sequence[Request], *, budget: int) -> Iterator[list[list[Request]]]:
    """Groups of requests with equal tokens, by length, cut so that a chunk's padded prompts hold `budget` tokens."""
    by_tokens: dict[tuple[int, ...], list[Request]] = {}
    for request in requests:
        by_tokens.setdefault(request.tokens, []).append(request)
    chunk: list[list[Request]] = []
    for tokens, group in sorted(by_tokens.items(), key=lambda item: len(item[0])):
        if chunk and (len(chunk) + 1) * len(tokens) > budget:
            yield chunk
            chunk = []
        chunk.append(group)
    if chunk:
        yield chunk
