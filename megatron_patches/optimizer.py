"""Optimizers, gradient norm and clipping on CPU parameters.

What:     MegatronOptimizer, DistributedOptimizer and clip_grads accept "torch.FloatTensor" and keep scalars on the CPU.
Why:      they assert `grad.type() == "torch.cuda.FloatTensor"` and make scalars with `device="cuda"`.
Versions: megatron-core 0.16 to 0.19.
Remove:   when the type checks compare dtypes; take this module out of PATCHES.
"""

from megatron_patches.retarget import retarget_all

NAME = "optimizer"
PLACES = (
    "megatron.core.optimizer.optimizer",
    "megatron.core.optimizer.distrib_optimizer",
    "megatron.core.optimizer.clip_grads",
    "megatron.core.utils:local_multi_tensor_l2_norm",
)


def apply() -> None:
    retarget_all(PLACES)
