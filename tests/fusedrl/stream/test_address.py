"""The coordinator listens on one address: loopback in a job of one node, else the one that faces the master."""

import socket

import pytest

from fusedrl.stream import address
from fusedrl.stream.address import endpoint, listening_address


def test_one_node_needs_loopback_alone() -> None:
    assert listening_address({"LOCAL_WORLD_SIZE": "8", "WORLD_SIZE": "8", "MASTER_ADDR": "10.0.0.1"}) == "127.0.0.1"
    assert listening_address({}) == "127.0.0.1"


def test_several_nodes_use_the_interface_that_faces_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "_facing", lambda found: f"10.1.1.1 towards {found}"[:8])
    nodes = {"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8", "MASTER_ADDR": "10.1.9.9"}
    assert listening_address(nodes) == "10.1.1.1"


def test_a_master_name_that_means_loopback_is_told() -> None:
    nodes = {"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8", "MASTER_ADDR": "127.0.0.1"}
    with pytest.raises(ValueError, match=r"MASTER_ADDR=127\.0\.0\.1 means 127\.0\.0\.1 .* rollout\.stream\.address"):
        listening_address(nodes)
    assert listening_address(nodes, configured="10.2.3.4") == "10.2.3.4"
    with pytest.raises(ValueError, match="MASTER_ADDR is not set"):
        listening_address({"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"})


def test_an_address_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ValueError, match=r"rollout\.stream\.address=nowhere: .*Name or service not known"):
        listening_address(configured="nowhere")


def test_endpoints_of_both_families() -> None:
    assert endpoint("127.0.0.1", 5) == "tcp://127.0.0.1:5"
    assert endpoint("fe80::1", 5) == "tcp://[fe80::1]:5"
