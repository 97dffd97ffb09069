"""Which implementation of a model's layers, attention, optimizer and gradient sums runs, out of what is asked for and
what this machine has.

                                  auto (null)                            asked for, but not there
    transformer_impl              Transformer Engine where it works      an error
    attention_backend             what Transformer Engine chooses        an error
    gradient_accumulation_fusion  on where apex's kernel is there        an error
    Adam                          Transformer Engine's, else apex's, else torch's: Megatron-Core's own choice

Layers with experts are Megatron's local ones: asking for others is an error, `auto` takes those.

All of them need CUDA. On CPU ranks `auto` is Megatron's local layers with unfused attention and torch's Adam.
"""

from dataclasses import dataclass, replace

import torch
from megatron.core.transformer.enums import AttnBackend

from fusedrl.libraries import Library, library

IMPLEMENTATIONS = ("auto", "local", "transformer_engine")
BACKENDS = ("auto", "flash", "fused", "unfused")
INSTEAD = "; install it (docs/gpu.md) or leave the key at its default"


@dataclass(frozen=True)
class Implementation:
    """What is asked for; the keys are Megatron's own names."""

    transformer_impl: str = "auto"
    attention_backend: str = "auto"
    gradient_accumulation_fusion: bool | None = None


AUTO = Implementation()


@dataclass(frozen=True)
class Chosen:
    """What runs. reasons: why Megatron's own path is taken where a library was not asked away."""

    transformer_engine: bool
    attention_backend: AttnBackend
    gradient_accumulation_fusion: bool
    reasons: tuple[str, ...] = ()

    def line(self) -> str:
        """One line for a run's header."""
        layers = "Transformer Engine's layers" if self.transformer_engine else "Megatron's local layers"
        backend = self.attention_backend.name if self.transformer_engine else "unfused"
        fused = "fused" if self.gradient_accumulation_fusion else "unfused"
        line = f"{layers}, {backend} attention, {adam()}, {fused} gradient accumulation"
        return f"{line} ({'; '.join(self.reasons)})" if self.reasons else line


def choose(asked: Implementation, *, key: str = "megatron", cuda: bool | None = None, experts: bool = False) -> Chosen:
    """What `asked` means on this machine. Raises ValueError that names the key where it asks for what is not there."""
    if experts:
        asked = _for_experts(asked, key=key)
    on_cuda = torch.cuda.is_available() if cuda is None else cuda
    engine, flash = _state("transformer_engine", cuda=on_cuda), _state("flash_attn", cuda=on_cuda)
    kernel = _state("fused_weight_gradient_mlp_cuda", cuda=on_cuda)
    _one_of(asked.transformer_impl, IMPLEMENTATIONS, key=f"{key}.transformer_impl")
    backend = _one_of(asked.attention_backend, BACKENDS, key=f"{key}.attention_backend")
    uses_engine = not engine and asked.transformer_impl != "local"
    if asked.transformer_impl == "transformer_engine" and engine:
        raise ValueError(f"{key}.transformer_impl=transformer_engine: {engine}{INSTEAD}")
    if backend in ("flash", "fused") and not uses_engine:
        local = f"Megatron's local layers have unfused attention alone ({engine or 'transformer_impl=local'})"
        raise ValueError(f"{key}.attention_backend={backend}: {local}; use auto or unfused")
    if backend == "flash" and flash:
        raise ValueError(f"{key}.attention_backend=flash: {flash}{INSTEAD}")
    if asked.gradient_accumulation_fusion and kernel:
        raise ValueError(f"{key}.gradient_accumulation_fusion=true: {kernel}{INSTEAD}")
    fusion = not kernel if asked.gradient_accumulation_fusion is None else asked.gradient_accumulation_fusion
    reasons = [engine] if engine and asked.transformer_impl == "auto" else []
    return Chosen(
        transformer_engine=uses_engine,
        # local layers read nothing of it, but Megatron would set the environment of Transformer Engine by it
        attention_backend=AttnBackend[backend] if uses_engine else AttnBackend.auto,
        gradient_accumulation_fusion=fusion,
        reasons=tuple(reasons),
    )


def _for_experts(asked: Implementation, *, key: str) -> Implementation:
    if asked.transformer_impl == "transformer_engine":
        raise ValueError(
            f"{key}.transformer_impl=transformer_engine: layers with experts are Megatron's local ones; "
            "use auto or local"
        )
    return replace(asked, transformer_impl="local") if asked.transformer_impl == "auto" else asked


def check_rows(chosen: Chosen, *, cp: int, packed: bool, key: str = "megatron") -> None:
    """Raises ValueError where the chosen attention takes whole padded rows alone: Transformer Engine's unfused one."""
    unfused = chosen.transformer_engine and chosen.attention_backend is AttnBackend.unfused
    if unfused and (packed or cp > 1):
        asked = "use_remove_padding=true" if packed else f"context_parallel_size={cp}"
        raise ValueError(
            f"{key}.attention_backend=unfused: Transformer Engine's unfused attention does not take {key}.{asked}; "
            "use auto, flash or fused"
        )


def adam() -> str:
    """Whose Adam Megatron-Core took when it was imported."""
    from megatron.core.optimizer import Adam

    owner = Adam.__module__.partition(".")[0]
    return {"transformer_engine": "Transformer Engine's Adam", "apex": "apex's Adam"}.get(owner, f"{owner}'s Adam")


def _state(name: str, *, cuda: bool) -> str:
    """Why a library does not serve; empty where it does."""
    found: Library = library(name)
    if not found.usable:
        return str(found)
    return "" if cuda else f"{found} needs a GPU"


def _one_of(value: str, known: tuple[str, ...], *, key: str) -> str:
    if value not in known:
        raise ValueError(f"{key}={value!r} is not one of {', '.join(known)}")
    return value
