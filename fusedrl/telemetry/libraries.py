"""Which GPU libraries a run uses, in one line instead of each library's own warnings."""

import importlib.util
import warnings

import torch

OPTIONAL = {"transformer_engine": "Transformer Engine", "apex": "apex", "flash_attn": "flash-attn"}


def hush() -> None:
    """Keep Megatron-Core from warning, on every rank, of each optional library that is absent: `libraries_line` tells.

    Call before megatron is imported.
    """
    warnings.filterwarnings("ignore", category=UserWarning, module=r"megatron(\.|$)")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"megatron(\.|$)")


def libraries_line() -> str:
    """The device, and the optional libraries present and absent."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU ranks (gloo)"
    states = [f"{title} {'found' if found(name) else 'absent'}" for name, title in OPTIONAL.items()]
    return f"{device}; {', '.join(states)}"


def found(name: str) -> bool:
    """Whether a library can be looked up; a broken install counts as absent."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
