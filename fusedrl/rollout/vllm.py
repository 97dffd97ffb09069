"""The vLLM engine: the built-in engine's interface (megatron.py) on a vLLM in this process, CPU or GPU, tp 1 or more.

    add(requests)  step() -> completions  generate(requests)  extract(sample_ids)  load(source)  release_cache()

Each rank of a tensor-parallel group holds a vLLM of its own ("external launcher"): they make the same calls, decide
alike and meet in vLLM's collectives. vLLM schedules, caches and runs the model; tokens are drawn by our own sampling
(vllm_draw.py), weights come from the trained model as a stream of Hugging Face tensors (hf_stream.py). Importing this
module does not import vLLM; making an engine does.
"""

import random
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any
from weakref import finalize

import numpy
import torch
import torch.distributed as dist
from torch import Tensor, nn

from fusedrl.models.weights import EMBEDDING, LM_HEAD
from fusedrl.rollout import vllm_library
from fusedrl.rollout.engine import generate_all
from fusedrl.rollout.handover import HandOverReport
from fusedrl.rollout.hf_stream import HfStream
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.vllm_settings import EngineSettings, engine_arguments, request_arguments, room


@dataclass
class _Seated:
    """A request that vLLM works on, and what it has generated here."""

    request: Request
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def grown(self) -> Request:
        """The request with the new tokens."""
        request = self.request
        return replace(
            request,
            response=request.response + tuple(self.tokens),
            logprobs=request.logprobs + tuple(self.logprobs),
        )


class VllmEngine:
    """Generates with a vLLM of this process. Making one is a collective of all ranks of the default group."""

    def __init__(self, settings: EngineSettings) -> None:
        vllm_library.prepare(rank=dist.get_rank(), local_rank=_local_rank(settings))
        self.settings = settings
        self._engine = _vllm(settings)
        self._stream: HfStream | None = None
        self._loaded = self._asleep = False
        self._waiting: deque[Request] = deque()
        self._seated: dict[int, _Seated] = {}
        self._done: list[Completion] = []
        self._ids: set[int] = set()

    @property
    def unfinished(self) -> int:
        """Samples that wait or are being generated."""
        return len(self._ids)

    def add(self, requests: Sequence[Request]) -> None:
        """Queue requests. A sample id may be in flight once."""
        for request in requests:
            if request.sample_id in self._ids:
                raise ValueError(f"sample {request.sample_id} is already in flight")
            self._ids.add(request.sample_id)
            self._waiting.append(request)

    def step(self) -> list[Completion]:
        """Seat waiting requests and run vLLM once; the samples that are done now."""
        if not self._loaded:
            raise RuntimeError("the engine has no weights: load() the trained model's first")
        self._admit()
        if self._seated:
            for output in self._engine.step():
                self._take(output)
        done, self._done = self._done, []
        self._ids.difference_update(c.sample_id for c in done)
        return done

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """All completions, in sample-id order. The engine must be idle."""
        return generate_all(self, requests)

    def extract(self, sample_ids: Collection[int]) -> list[Request]:
        """Take unfinished samples out, as requests that carry what they generated so far, in sample-id order."""
        wanted = set(sample_ids)
        if missing := sorted(wanted - self._ids):
            raise ValueError(f"samples {missing} are not in flight")
        seated = [sample_id for sample_id in self._seated if sample_id in wanted]
        self._engine.abort_request([str(sample_id) for sample_id in seated])
        taken = [self._seated.pop(sample_id).grown() for sample_id in seated]
        taken += [request for request in self._waiting if request.sample_id in wanted]
        self._waiting = deque(request for request in self._waiting if request.sample_id not in wanted)
        self._ids -= wanted
        return sorted(taken, key=lambda r: r.sample_id)

    def load(self, source: nn.Module) -> HandOverReport:
        """Take over the weights of `source` (any layout); a collective of all ranks. Wakes an engine that sleeps.

        Cached keys and values belong to the old weights, so no sample may be half generated.
        """
        if self._seated:
            raise RuntimeError(
                f"weights change under {len(self._seated)} half-generated samples: finish or extract() them"
            )
        start = perf_counter()
        stream = self._stream_of(source)
        self._wake("weights")
        self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": self._weights(stream)})
        self._wake("kv_cache")
        self._engine.reset_prefix_cache()
        self._loaded, self._asleep = True, False
        return HandOverReport(**asdict(stream.traffic), seconds=perf_counter() - start)

    def release_cache(self) -> None:
        """On a GPU, give weights and cache back while the model trains; `load` brings both again. Idle engines only."""
        if self._seated:
            raise RuntimeError(f"the cache holds {len(self._seated)} half-generated samples: finish or extract() them")
        if self.settings.sleeps and not self._asleep:
            self._engine.sleep(level=2)
            self._loaded, self._asleep = False, True

    def _stream_of(self, source: nn.Module) -> HfStream:
        """The stream of the trained model, planned once."""
        if self._stream is None or self._stream.source is not source:
            self._stream = HfStream(source, arch=self.settings.arch)
        return self._stream

    def _weights(self, stream: HfStream) -> Iterator[tuple[str, Tensor]]:
        """The stream's tensors, under the names that this vLLM knows."""
        for name, tensor in stream.tensors():
            yield name, tensor
            if name == EMBEDDING and self.settings.unties:
                yield LM_HEAD, tensor

    def _wake(self, part: str) -> None:
        if self._asleep:
            self._engine.wake_up(tags=[part])

    def _admit(self) -> None:
        """Hand vLLM as many waiting requests as it has rows. Those without room for one token are done without it."""
        while self._waiting and len(self._seated) < self.settings.max_rows:
            request = self._waiting.popleft()
            if room(request, max_length=self.settings.max_length) > 0:
                self._seat(request)
            else:
                self._done.append(Completion.without_a_token(request))

    def _seat(self, request: Request) -> None:
        from vllm import SamplingParams

        self._seated[request.sample_id] = _Seated(request)
        prompt = {"type": "token", "prompt_token_ids": list(request.tokens)}
        arguments = request_arguments(request, max_length=self.settings.max_length)
        params = SamplingParams(**arguments, output_kind=_delta())
        self._engine.add_request(str(request.sample_id), prompt, params, arrival_time=0.0)

    def _take(self, output: Any) -> None:
        """The new tokens of one sample."""
        seated, (new,) = self._seated[int(output.request_id)], output.outputs
        seated.tokens += new.token_ids
        seated.logprobs += [at[token].logprob for token, at in zip(new.token_ids, new.logprobs, strict=True)]
        if output.finished:
            self._finish(self._seated.pop(int(output.request_id)).grown())

    def _finish(self, request: Request) -> None:
        stopped = bool(request.response) and request.response[-1] in request.params.stop_token_ids
        self._done.append(
            Completion(
                sample_id=request.sample_id,
                prompt=request.prompt,
                tokens=request.response,
                logprobs=request.logprobs,
                finish_reason="stop" if stopped else "length",
            )
        )


@contextmanager
def _same_random_state() -> Iterator[None]:
    """vLLM seeds every generator of the process; the trainer's states come back."""
    ours, numpys = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(ours)
    numpy.random.set_state(numpys)


@_same_random_state()
def _vllm(settings: EngineSettings) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    from fusedrl.rollout.vllm_processor import DrawProcessor

    arguments = EngineArgs(**engine_arguments(settings, processor=DrawProcessor))
    with vllm_library.unseen("llvmlite"):
        engine = LLMEngine.from_engine_args(arguments)
    # its own clean-up, when it is collected, would end the default process group too, which is the trainer's
    engine.engine_core._finalizer.detach()
    finalize(engine, engine.model_executor.shutdown)
    return engine


def _delta() -> Any:
    from vllm.sampling_params import RequestOutputKind

    return RequestOutputKind.DELTA


def _local_rank(settings: EngineSettings) -> int:
    """Of a launcher that does not say: the CUDA device this rank has taken."""
    return torch.cuda.current_device() if settings.device == "cuda" else 0
