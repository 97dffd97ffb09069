"""Activations and gradients between the pipeline columns of a model.

Messages carry no tag on NCCL: two ranks must agree on their sequence. Each (model, direction) has a process group of
its own, so that only the messages of one model and direction share a sequence, the one that lowering fixed for all
ranks. The groups are made and warmed up here, in one sequence on all ranks: a communicator that is born lazily in the
middle of a pass can hang it.

                     rank r (column c)                          rank of column c', same (tp, dp)
    F of stage s  ->  send(message, output)    =============>    post(message) ... take(message)  ->  F of stage s + 1

Sends are asynchronous and their tensors live here until they are done. Receives go into fresh buffers, are posted in
list order and waited for by the op that needs them. No shapes are sent: both sides know the micro-batch.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.pipeline.failure import MessageTimeout, PipelineError
from fusedrl.pipeline.stage import PipelineModel
from schedules.lower import Message

Key = tuple[str, str, int, int]
"""(model, direction, micro-batch, destination stage): names a message on the receiving side."""

_CLOSED = ("closed by peer", "reset by peer", "broken pipe")  # what gloo says when the other side is gone
_UNFINISHED_SENDS = 4  # per model and direction; older ones are waited for, which bounds the memory they hold


def arrival(message: Message) -> Key:
    return message.model, message.kind, message.microbatch, message.dst_stage


@dataclass(frozen=True)
class Channel:
    """One model's messages in one direction. ranks: world ranks by pipeline column; peers: the same in the group.

    Messages are sent through the group's own methods: torch.distributed's isend and irecv look ranks up anew each time,
    which costs as much as the message on a CPU.
    """

    group: dist.ProcessGroup
    ranks: tuple[int, ...]
    peers: tuple[int, ...]

    def send(self, tensor: Tensor, column: int) -> dist.Work:
        return self.group.send([tensor], self.peers[column], 0)

    def receive(self, buffer: Tensor, column: int) -> dist.Work:
        return self.group.recv([buffer], self.peers[column], 0)


def open_channels(models: Sequence[PipelineModel], *, timeout: float) -> dict[tuple[str, str], Channel]:
    """Make and warm up the groups of all models. Every rank of the world calls this with the same models, in the same
    sequence; a model on a single column has no messages and gets no group."""
    channels: dict[tuple[str, str], Channel] = {}
    for model in models:
        for direction in ("F", "B"):
            channel = _open(model, timeout=timeout)
            if channel is not None:
                channels[model.name, direction] = channel
                _warm_up(channel, _pairs(model, direction), device=model.device)
    return channels


def _open(model: PipelineModel, *, timeout: float) -> Channel | None:
    mine = None
    for ranks in model.columns:
        if len(ranks) > 1:
            group = dist.new_group(sorted(ranks), timeout=timedelta(seconds=timeout))
            if dist.get_rank() in ranks:
                mine = Channel(group, ranks, tuple(dist.get_group_rank(group, rank) for rank in ranks))
    return mine


def _pairs(model: PipelineModel, direction: str) -> list[tuple[int, int]]:
    """(from, to) columns of the model's messages, in stage order, each once."""
    steps = list(zip(model.placement, model.placement[1:], strict=False))
    pairs = steps if direction == "F" else [(b, a) for a, b in reversed(steps)]
    return list(dict.fromkeys((a, b) for a, b in pairs if a != b))


def _warm_up(channel: Channel, pairs: Sequence[tuple[int, int]], *, device: torch.device) -> None:
    """A collective first (the first message of a group may need all its ranks), then one message for each pair."""
    token = torch.zeros(1, device=device)
    dist.all_reduce(token, group=channel.group)
    for source, target in pairs:
        if dist.get_rank() == channel.ranks[source]:
            dist.send(token, channel.ranks[target], group=channel.group)
        elif dist.get_rank() == channel.ranks[target]:
            dist.recv(token, channel.ranks[source], group=channel.group)


class Mailbox:
    """This rank's side of all channels: what was sent and may not be freed yet, what was posted and not yet taken."""

    def __init__(self, models: Sequence[PipelineModel], *, timeout: float) -> None:
        self._channels = open_channels(models, timeout=timeout)
        self._timeout = timeout
        # gloo waits on the host, for as long as we say. NCCL's wait only orders streams; its group's own watchdog ends
        # a message that does not come.
        self.on_host = dist.get_backend() == "gloo"
        self._limit = timedelta(seconds=timeout) if self.on_host else None
        self._sent: dict[tuple[str, str], deque[tuple[Message, Tensor, dist.Work]]] = {}
        self._posted: dict[Key, tuple[Message, Tensor, dist.Work]] = {}
        self._last: dict[tuple[int, str], Message] = {}  # (world rank, sent | received)
        self._waits_for: Message | None = None

    def send(self, message: Message, tensor: Tensor) -> None:
        channel = self._channel(message)
        tensor = tensor.contiguous()
        try:
            work = channel.send(tensor, message.dst_rank)
        except RuntimeError as error:  # a connection that is closed already
            raise self._explained(error, message, peer=message.dst_rank, failing="to rank {} was not sent") from error
        self._last[channel.ranks[message.dst_rank], "sent"] = message
        unfinished = self._sent.setdefault((message.model, message.kind), deque())
        unfinished.append((message, tensor, work))
        while len(unfinished) > _UNFINISHED_SENDS:
            self._finish_send(unfinished.popleft())

    def post(self, message: Message, *, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> None:
        channel = self._channel(message)
        buffer = torch.empty(tuple(shape), dtype=dtype, device=device)
        try:
            work = channel.receive(buffer, message.src_rank)
        except RuntimeError as error:
            raise self._explained(error, message, peer=message.src_rank, failing="from rank {} cannot come") from error
        self._posted[arrival(message)] = (message, buffer, work)

    def take(self, key: Key) -> Tensor:
        """The tensor of a posted message, once it is there. Raises MessageTimeout after the limit."""
        message, buffer, work = self._posted[key]
        self._wait(work, message, peer=message.src_rank, failing="from rank {} did not come")
        self._last[self._sender(message), "received"] = message
        del self._posted[key]
        return buffer

    def finish(self) -> None:
        """Wait for all sends of the pass; nothing may be left unreceived."""
        for unfinished in self._sent.values():
            while unfinished:
                self._finish_send(unfinished.popleft())
        left = [str(message) for message, _, _ in self._posted.values()]
        assert not left, f"messages were received and used by no op: {left}"

    def group(self, model: str) -> dist.ProcessGroup:
        """The group of a model's columns: for collectives between passes. Only for models on several columns."""
        return self._channels[model, "F"].group

    @property
    def waiting(self) -> str | None:
        """The message that this rank waits for now."""
        return None if self._waits_for is None else f"waiting for message {self._waits_for}"

    def last_messages(self) -> list[str]:
        """By peer: the last messages to it and from it, and those that were posted and not taken; for error reports."""
        posted = [message for message, _, _ in self._posted.values()]
        peers = sorted({rank for rank, _ in self._last} | {self._sender(message) for message in posted})
        return [f"rank {rank}: {self._last_of(rank, posted)}" for rank in peers]

    def close(self) -> None:
        """Give the groups up; on gloo this ends every peer's wait for this rank at once."""
        self._sent.clear()
        self._posted.clear()
        for channel in self._channels.values():
            dist.destroy_process_group(channel.group)
        self._channels.clear()

    def _last_of(self, rank: int, posted: Sequence[Message]) -> str:
        sent, received = (self._last.get((rank, way), "nothing") for way in ("sent", "received"))
        open_ones = " ".join(str(message) for message in posted if self._sender(message) == rank) or "nothing"
        return f"last to it {sent}, last from it {received}, not taken yet {open_ones}"

    def _sender(self, message: Message) -> int:
        """World rank."""
        return self._channel(message).ranks[message.src_rank]

    def _channel(self, message: Message) -> Channel:
        return self._channels[message.model, message.kind]

    def _finish_send(self, sent: tuple[Message, Tensor, dist.Work]) -> None:
        message, _, work = sent
        self._wait(work, message, peer=message.dst_rank, failing="to rank {} was not taken")

    def _wait(self, work: dist.Work, message: Message, *, peer: int, failing: str) -> None:
        """peer: the other side's column. failing: what is to be said of the message where this ends badly."""
        if self._limit is None:
            work.wait()
            return
        self._waits_for = message
        try:
            work.wait(self._limit)
        except RuntimeError as error:
            raise self._explained(error, message, peer=peer, failing=failing) from error
        self._waits_for = None

    def _explained(self, error: RuntimeError, message: Message, *, peer: int, failing: str) -> PipelineError:
        rank, text = self._channel(message).ranks[peer], str(error).splitlines()[0]
        what = f"message {message} {failing.format(rank)}"
        if "timed out" in text.lower():
            return MessageTimeout(f"{what} within {self._timeout:g} s")
        if any(sign in text.lower() for sign in _CLOSED):
            return PipelineError(f"{what}: rank {rank} closed the connection; it ended, failed or was killed")
        return PipelineError(f"{what}: {text}")
