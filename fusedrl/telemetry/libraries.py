"""The device and the optional GPU libraries of a run, in one line instead of each library's own warnings."""

import warnings

import torch

from fusedrl.libraries import libraries


def hush() -> None:
    """Keep Megatron-Core from warning, on every rank, of each optional library that is absent: `libraries_line` tells.

    Call before megatron is imported.
    """
    warnings.filterwarnings("ignore", category=UserWarning, module=r"megatron(\.|$)")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"megatron(\.|$)")


def libraries_line() -> str:
    """The device, and the optional libraries: their versions, absent, or left out with the reason."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU ranks (gloo)"
    return "; ".join([device, ", ".join(str(each) for each in libraries())])
