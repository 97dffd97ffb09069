"""Devices: what the sheet says and what is assumed.

    seconds of work = FLOPs / (tp x peak x efficiency)         seconds of a message = latency + bytes / bandwidth

The one efficiency is an assumption: it stands for kernels below peak and for tensor-parallel communication, and is
held equal for all shapes and sizes.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """peak: dense bf16 FLOP/s. bandwidth: bytes/s to a peer on another node. latency: seconds of a message."""

    name: str
    peak: float
    efficiency: float
    bandwidth: float
    latency: float

    def work_seconds(self, flops: float, *, tp: int) -> float:
        """Time of work that `tp` devices share evenly."""
        return flops / (tp * self.peak * self.efficiency)

    def message_seconds(self, size: float) -> float:
        """Time of a message of `size` bytes, alone on its link."""
        return self.latency + size / self.bandwidth


_LATENCY = 10e-6  # assumed: launch and handshake of a point-to-point kernel
DEVICES = {
    device.name: device
    for device in (
        # Peak: NVIDIA A100 datasheet, 312 TFLOP/s. Efficiency: near the 54.2 % of Korthikanti et al. 2022 (530B, 2240
        # A100), a little lower for smaller models. Link: one 200 Gb/s adapter per GPU (DGX A100).
        Device("a100", peak=312e12, efficiency=0.50, bandwidth=25e9, latency=_LATENCY),
        # Peak: NVIDIA H100 SXM datasheet, 989 TFLOP/s dense. Efficiency: Megatron-LM's README reports up to 47 % of
        # peak on H100. Link: one 400 Gb/s adapter per GPU (DGX H100).
        Device("h100", peak=989e12, efficiency=0.45, bandwidth=50e9, latency=_LATENCY),
    )
}
