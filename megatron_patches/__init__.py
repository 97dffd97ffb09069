"""Every departure from stock Megatron-Core, one file each. `apply()` installs them; on CUDA it does nothing.

These serve one end: Megatron-Core 0.16 to 0.19 on CPU ranks with gloo (weight_gradients.py, which lets backwards be
split, is no part of `apply()`: a pipeline stage connects it). Nothing of torch itself is touched
(`torch.cuda.is_available()` stays False, `Tensor.cuda` still raises): only functions of the Megatron modules named in
each file are changed, in this process. See docs/megatron_patches.md for the list and how to take one out.
"""

import torch

from megatron_patches import attention_buffer, context_rope, experts, gradients, layers, model, optimizer, rng

PATCHES = (layers, model, context_rope, experts, attention_buffer, gradients, optimizer, rng)

_applied: tuple[str, ...] = ()


def apply() -> tuple[str, ...]:
    """Install the patches once; the names of those in force, () where CUDA is present. Call before models are built."""
    global _applied
    if torch.cuda.is_available():
        return ()
    if not _applied:
        for patch in PATCHES:
            patch.apply()
        _applied = tuple(patch.NAME for patch in PATCHES)
    return _applied
