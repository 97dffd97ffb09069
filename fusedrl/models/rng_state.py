"""The states of this rank's random number generators: torch's and the tensor-parallel tracker's.

Nothing that trains draws from them today (dropout is 0, sampling and mini-batches have numbers of their own); they are
kept so that a resumed run starts where the interrupted one stood.
"""

from collections.abc import Mapping

import torch
from megatron.core.tensor_parallel import random as tp_random
from torch import Tensor

TRACKER = "tracker."


def random_states() -> dict[str, Tensor]:
    """Bytes by generator, on the CPU."""
    found = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state()
    tracked = tp_random.get_cuda_rng_tracker().get_states()
    return found | {TRACKER + name: state.cpu().clone() for name, state in tracked.items()}


def restore_random_states(states: Mapping[str, Tensor]) -> None:
    """Put back what `random_states` gave on an equal layout."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    tracker = tp_random.get_cuda_rng_tracker()
    saved = {name.removeprefix(TRACKER): state for name, state in states.items() if name.startswith(TRACKER)}
    tracker.set_states({**tracker.get_states(), **saved})
