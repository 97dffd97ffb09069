"""Where the coordinator listens: on the one address that the other ranks reach it by, never on all of them.

A job on one node needs 127.0.0.1 alone. Else it is the address of the interface that faces MASTER_ADDR, which the ranks
of the other nodes could reach already, or the one given by config.
"""

import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address


def listening_address(environment: Mapping[str, str] = os.environ, *, configured: str = "") -> str:
    """The IP address for rank 0 to bind to."""
    if configured:
        return _numeric(configured, key="rollout.stream.address")
    if environment.get("LOCAL_WORLD_SIZE", "1") == environment.get("WORLD_SIZE", "1"):
        return "127.0.0.1"
    master = environment.get("MASTER_ADDR", "")
    if not master:
        raise ValueError("MASTER_ADDR is not set in a job of several nodes: set it, or rollout.stream.address")
    found = _facing(_numeric(master, key="MASTER_ADDR"))
    if ip_address(found).is_loopback:
        raise ValueError(
            f"MASTER_ADDR={master} means {found} on rank 0, which other nodes cannot reach: "
            "set rollout.stream.address to this node's address on their network"
        )
    return found


def endpoint(address: str, port: int) -> str:
    """ZeroMQ's form of an address."""
    host = f"[{address}]" if ":" in address else address
    return f"tcp://{host}:{port}"


def _numeric(host: str, *, key: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise ValueError(f"{key}={host}: {error}") from error


def _facing(address: str) -> str:
    """The local address that packets to `address` would leave from; nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        return str(probe.getsockname()[0])
