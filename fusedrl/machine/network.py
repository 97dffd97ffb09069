"""Addresses: this node's interfaces, which one gloo would bind, and whether the place where ranks meet can be reached.

Gloo binds GLOO_SOCKET_IFNAME's address, else the one that this node's own name resolves to, else 127.0.0.1. Ranks of
several nodes then wait for each other until the timeout where that is an address that the others cannot reach.
"""

import fcntl
import socket
import struct
from collections.abc import Mapping
from ipaddress import ip_address

from fusedrl.machine.finding import Finding, bad, warn
from fusedrl.machine.place import Place
from fusedrl.stream.address import listening_address

SIOCGIFADDR = 0x8915  # Linux's request for the IPv4 address of an interface
IFNAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
MEET = "launch/slurm.sbatch takes NodeAddr of `scontrol show node`; elsewhere set MASTER_ADDR to a numeric address"


def interfaces() -> dict[str, str]:
    """IPv4 addresses by the name of the interface; those without one are left out."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                packed = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            found[name] = socket.inet_ntoa(packed[20:24])
    return found


def resolved(host: str) -> str | None:
    """The numeric address of a name, None where it has none."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return None


def gloo_address(environment: Mapping[str, str], interfaces: Mapping[str, str], *, own: str | None) -> str | None:
    """The address that gloo would bind; own: what this node's name resolves to. None: the interface has no address."""
    named = environment.get("GLOO_SOCKET_IFNAME")
    if named:
        return interfaces.get(named.split(",")[0])
    return own or "127.0.0.1"


def network_findings(environment: Mapping[str, str], place: Place) -> list[Finding]:
    """Of this node."""
    there, own = interfaces(), resolved(socket.gethostname())
    listed = ", ".join(f"{name} {address}" for name, address in there.items()) or "none with an IPv4 address"
    found = [Finding("interfaces", f"{socket.gethostname()}: {listed}"), *named_interfaces(environment, there)]
    meet = None if place.source == "alone" else resolved(place.master.rpartition(":")[0])
    apart = place.spans_nodes and not (meet is not None and ip_address(meet).is_loopback)
    found.append(gloo_finding(environment, there, own=own, apart=apart))
    if place.source != "alone":
        found += [master_finding(place, address=meet), stream_finding(environment)]
    return found


def named_interfaces(environment: Mapping[str, str], there: Mapping[str, str]) -> list[Finding]:
    """Interfaces that the environment names for gloo or NCCL and this node has not. NCCL takes prefixes, ^ and =."""
    found = []
    for variable in IFNAMES:
        names = environment.get(variable, "")
        wanted = [name for name in names.lstrip("=").split(",") if name]
        if names and not names.startswith("^") and not any(one.startswith(name) for name in wanted for one in there):
            text = f"{variable}={names}, but this node has {', '.join(there)}"
            found.append(bad("interfaces", text, change=f"set {variable} to one of these, or unset it"))
    return found


def gloo_finding(environment: Mapping[str, str], there: Mapping[str, str], *, own: str | None, apart: bool) -> Finding:
    """What gloo binds; it must not be the loopback where ranks are apart, on several machines."""
    bound = gloo_address(environment, there, own=own)
    if bound is None:
        text = f"GLOO_SOCKET_IFNAME={environment['GLOO_SOCKET_IFNAME']} has no IPv4 address here"
        return bad("gloo binds", text, change="name an interface that has one")
    if not (apart and ip_address(bound).is_loopback):
        return Finding("gloo binds", bound)
    others = [name for name, address in there.items() if not ip_address(address).is_loopback]
    change = f"set GLOO_SOCKET_IFNAME={others[0] if others else 'INTERFACE'} on all nodes"
    return bad("gloo binds", f"{bound}, which ranks on other nodes cannot reach", change=change)


def master_finding(place: Place, *, address: str | None) -> Finding:
    """address: what MASTER_ADDR resolves to."""
    host = place.master.rpartition(":")[0]
    if address is None:
        return bad("master", f"MASTER_ADDR={host} does not resolve on this node", change=MEET)
    if place.spans_nodes and ip_address(address).is_loopback:
        text = f"MASTER_ADDR={host} is {address}, so all ranks must be on this machine"
        return warn("master", text, change=MEET)
    return Finding("master", f"{place.master}" if host == address else f"{place.master} ({address})")


def stream_finding(environment: Mapping[str, str]) -> Finding:
    """Where the coordinator of the sample stream would listen (rollout.inference=instances)."""
    try:
        return Finding("stream listens", f"{listening_address(environment)} (rank 0)")
    except (OSError, ValueError) as error:
        change = "set actor_rollout_ref.rollout.stream.address, if rollout.inference=instances is used"
        return warn("stream listens", str(error), change=change)
