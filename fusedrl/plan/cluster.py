"""Devices, the links between them, and a cluster of nodes: what their sheets say, and what is assumed.

    read_cluster("h100_16x8")           16 nodes of 8 devices of configs/plan/device/h100.yaml, with its links
    read_cluster("my_cluster.yaml")     device, nodes, devices, and links of its own (inside, between)

Peaks, bandwidths and memory are the vendor's. The shares of them that programs reach are assumptions, stated in each
sheet; a profile (`python -m fusedrl.profile`) replaces them by measurements. No torch here.
"""

import re
from dataclasses import dataclass, replace

from fusedrl.data.json_object import JsonObject
from fusedrl.plan.sheet import check_keys, known_sheets, read_sheet

_NAMED = re.compile(r"(?P<device>\w+)_(?P<nodes>\d+)x(?P<devices>\d+)")
_SHARES = ("matrix", "attention", "memory", "link")
_DEVICE = (
    "peak_tflops",
    "memory_gib",
    "usable",
    "memory_gb_s",
    "host_gb_s",
    "launch_us",
    "reached",
    "inside",
    "between",
)
_CLUSTER = ("device", "nodes", "devices", "inside", "between")
GIB = 2**30


@dataclass(frozen=True)
class Link:
    """What one device sends another, one way: bytes/s, and seconds before the first byte."""

    bandwidth: float
    latency: float

    def seconds(self, nbytes: float) -> float:
        return self.latency + nbytes / self.bandwidth


@dataclass(frozen=True)
class Reached:
    """Assumed shares of the sheet's figures: of the peak by matrix products and attention, of the bandwidths."""

    matrix: float
    attention: float
    memory: float
    link: float


@dataclass(frozen=True)
class Device:
    """peak: dense FLOP/s by dtype. memory_bandwidth, host_bandwidth (to the CPU's memory): bytes/s. launch: seconds a
    kernel. usable: the share of `memory` (bytes) that a plan may fill; the rest is for libraries and fragments."""

    name: str
    peak: dict[str, float]
    memory: float
    usable: float
    memory_bandwidth: float
    host_bandwidth: float
    launch: float
    reached: Reached

    @property
    def room(self) -> float:
        """Bytes that a plan may fill."""
        return self.memory * self.usable

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Cluster:
    """nodes x devices, all alike. inside: between two devices of a node; between: of two nodes, each device its own."""

    name: str
    device: Device
    nodes: int
    devices: int
    inside: Link
    between: Link

    @property
    def world(self) -> int:
        return self.nodes * self.devices

    def nodes_of(self, ranks: int, *, stride: int = 1) -> int:
        """Nodes that a group of `ranks`, each `stride` ranks from the next, lies on; the first on a node's first."""
        return -(-ranks * stride // self.devices) if ranks * stride > self.devices else 1

    def part(self, *, nodes: int, devices: int) -> "Cluster":
        """So many nodes of it, so many devices of each."""
        if nodes > self.nodes or devices > self.devices:
            raise ValueError(f"{nodes} x {devices} is no part of {self.name}: {self.nodes} x {self.devices}")
        return replace(self, nodes=nodes, devices=devices)


def read_cluster(name: str) -> Cluster:
    """By name, DEVICE_NODESxDEVICES or a sheet's of configs/plan/cluster, or by a YAML file."""
    named = _NAMED.fullmatch(name)
    if named and name not in known_sheets("cluster"):
        values: dict[str, object] = {"device": named["device"]} | {key: int(named[key]) for key in ("nodes", "devices")}
        sheet = JsonObject.of(values, where=f"cluster={name}")
    else:
        sheet = read_sheet("cluster", name, also=", or DEVICE_NODESxDEVICES such as h100_16x8")
    check_keys(sheet, _CLUSTER)
    device = read_sheet("device", sheet.text("device"))
    links = {key: _link(sheet if sheet.values.get(key) else device, key) for key in ("inside", "between")}
    made = _device(device, name=sheet.text("device"))
    share = made.reached.link
    links = {key: replace(link, bandwidth=share * link.bandwidth) for key, link in links.items()}
    return Cluster(name, made, nodes=sheet.size("nodes"), devices=sheet.size("devices"), **links)


def read_device(name: str) -> Device:
    """A sheet of configs/plan/device, or a YAML file."""
    return _device(read_sheet("device", name), name=name)


def _device(sheet: JsonObject, *, name: str) -> Device:
    check_keys(sheet, _DEVICE)
    peaks, reached = sheet.inner("peak_tflops"), sheet.inner("reached")
    check_keys(reached, _SHARES)
    shares = {key: reached.number(key) for key in _SHARES} | {"usable": sheet.number("usable")}
    for key, share in shares.items():
        if share > 1:
            raise ValueError(f"{sheet.where}: {key}={share:g} is a share and must be at most 1")
    return Device(
        name=name,
        peak={dtype: 1e12 * peaks.number(dtype) for dtype in peaks.values},
        memory=GIB * sheet.number("memory_gib"),
        usable=shares.pop("usable"),
        memory_bandwidth=1e9 * sheet.number("memory_gb_s"),
        host_bandwidth=1e9 * sheet.number("host_gb_s"),
        launch=1e-6 * sheet.number("launch_us"),
        reached=Reached(**shares),
    )


def _link(sheet: JsonObject, key: str) -> Link:
    link = sheet.inner(key)
    check_keys(link, ("gb_s", "latency_us"))
    return Link(bandwidth=1e9 * link.number("gb_s"), latency=1e-6 * link.number("latency_us"))
