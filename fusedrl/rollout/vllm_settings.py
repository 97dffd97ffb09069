"""What an engine of ours asks of vLLM, as plain keyword arguments: pure functions, no vLLM here."""

from dataclasses import dataclass
from typing import Any

import torch

from fusedrl.models.architecture import Architecture
from fusedrl.rollout.requests import Request
from fusedrl.rollout.vllm_draw import extra_args

CPU_BLOCK = 128  # tokens of a cache block on the CPU, vLLM's choice
SPARE_BLOCKS = 8  # vLLM keeps one for itself; the others round small caches up


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Sizes of one engine. folder: config.json lies there; weights come by the hand-over."""

    folder: str
    arch: Architecture
    dtype: torch.dtype
    tp: int
    max_length: int  # prompt and response together
    max_rows: int
    device: str = "cpu"  # or cuda
    gpu_memory_utilization: float = 0.5
    enforce_eager: bool = False

    @property
    def sleeps(self) -> bool:
        """Whether weights and cache can be let go while the model trains."""
        return self.device == "cuda"

    @property
    def unties(self) -> bool:
        """Whether a tied head gets weights of its own. On the CPU vLLM multiplies by a packed copy of them, and a
        reload of the table alone leaves a tied head's copy as it was."""
        return self.arch.tied and self.device == "cpu"


def engine_arguments(settings: EngineSettings, *, processor: type) -> dict[str, Any]:
    """The keyword arguments of vLLM's EngineArgs. processor: the class that draws tokens."""
    return {
        "model": settings.folder,
        "skip_tokenizer_init": True,  # token ids in, token ids out
        "load_format": "dummy",
        "hf_overrides": {"tie_word_embeddings": False} if settings.unties else {},
        "generation_config": "vllm",  # none of the folder's: each request says everything
        "trust_remote_code": False,
        "dtype": str(settings.dtype).removeprefix("torch."),
        "seed": 0,
        "max_model_len": settings.max_length,
        "max_num_seqs": settings.max_rows,
        "tensor_parallel_size": settings.tp,
        "distributed_executor_backend": "external_launcher",
        "enable_prefix_caching": True,
        "async_scheduling": False,  # a token is known before the next is drawn
        "logits_processors": [processor],
        "logprobs_mode": "processed_logits",
        "disable_log_stats": True,
        "enforce_eager": settings.enforce_eager or settings.device == "cpu",
        "enable_sleep_mode": settings.sleeps,
        **_memory(settings),
    }


def _memory(settings: EngineSettings) -> dict[str, Any]:
    """A share of a GPU; on the CPU just what all rows need at full length."""
    if settings.device == "cuda":
        return {"gpu_memory_utilization": settings.gpu_memory_utilization}
    return {"kv_cache_memory_bytes": cache_bytes(settings)}


def cache_bytes(settings: EngineSettings) -> int:
    """Bytes of keys and values on one rank for every row at full length, in whole blocks."""
    arch = settings.arch
    token = 2 * arch.num_layers * (arch.num_kv_heads // settings.tp) * arch.head_dim * settings.dtype.itemsize
    blocks = settings.max_rows * -(-settings.max_length // CPU_BLOCK) + SPARE_BLOCKS
    return blocks * CPU_BLOCK * token


def request_arguments(request: Request, *, max_length: int) -> dict[str, Any]:
    """The keyword arguments of vLLM's SamplingParams for what a request still has to generate.

    Greedy in vLLM's eyes: the token is drawn before it looks (fusedrl.rollout.vllm_draw).
    """
    return {
        "temperature": 0.0,
        "max_tokens": room(request, max_length=max_length),
        "stop_token_ids": sorted(request.params.stop_token_ids),
        "ignore_eos": True,  # the stop tokens are the request's
        "logprobs": 0,  # of the taken token alone
        "detokenize": False,
        "skip_clone": True,
        "extra_args": extra_args(request),
    }


def room(request: Request, *, max_length: int) -> int:
    """Tokens that may still come."""
    return min(len(request.prompt) + request.params.max_tokens, max_length) - len(request.tokens)
