"""GPTModel on the CPU: rotary tables, causal masks, KV memory, tied embeddings.

What:     the functions below make and move tensors on the CPU.
Why:      they name the device "cuda", `torch.cuda.current_device()` or call `.cuda()`.
Versions: megatron-core 0.16 to 0.19.
Remove:   when Megatron takes the device from the parameters; take this module out of PATCHES.
"""

from megatron_patches.retarget import retarget_all

NAME = "model"
PLACES = (
    "megatron.core.models.gpt.gpt_model",
    "megatron.core.models.common.language_module.language_module",
    "megatron.core.models.common.embeddings.rotary_pos_embedding",
    "megatron.core.transformer.attention",
    "megatron.core.transformer.dot_product_attention",
    "megatron.core.transformer.utils:get_default_causal_mask",
    "megatron.core.transformer.utils:get_sliding_window_causal_mask",
)


def apply() -> None:
    retarget_all(PLACES)
