import pytest

from fusedrl.machine import network
from fusedrl.machine.network import gloo_finding, interfaces, master_finding, named_interfaces, network_findings
from fusedrl.machine.place import Place

THERE = {"lo": "127.0.0.1", "eth0": "10.0.0.5", "ib0": "10.1.0.5"}
APART = Place(rank=1, world=4, local_rank=1, local_world=2, source="torchrun", master="10.0.0.1:29500")


def test_the_loopback_is_an_interface_with_its_address() -> None:
    assert interfaces()["lo"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("environment", "own", "apart", "level", "text"),
    [
        ({}, "10.0.0.5", True, "ok", "10.0.0.5"),
        ({}, "127.0.1.1", False, "ok", "127.0.1.1"),
        ({}, "127.0.1.1", True, "bad", "127.0.1.1, which ranks on other nodes cannot reach"),
        ({}, None, True, "bad", "127.0.0.1, which ranks on other nodes cannot reach"),
        ({"GLOO_SOCKET_IFNAME": "ib0,eth0"}, "127.0.1.1", True, "ok", "10.1.0.5"),
        ({"GLOO_SOCKET_IFNAME": "eth9"}, "10.0.0.5", False, "bad", "GLOO_SOCKET_IFNAME=eth9 has no IPv4 address here"),
    ],
)
def test_gloo_must_not_bind_the_loopback_between_nodes(
    environment: dict[str, str], own: str | None, apart: bool, level: str, text: str
) -> None:
    found = gloo_finding(environment, THERE, own=own, apart=apart)
    assert (found.level, found.text) == (level, text)
    if text.endswith("cannot reach"):
        assert found.change == "set GLOO_SOCKET_IFNAME=eth0 on all nodes"


@pytest.mark.parametrize(
    ("variable", "names", "there"),
    [
        ("NCCL_SOCKET_IFNAME", "eth", True),
        ("NCCL_SOCKET_IFNAME", "^docker,veth", True),
        ("NCCL_SOCKET_IFNAME", "=ib0", True),
        ("NCCL_SOCKET_IFNAME", "bond0,ens", False),
        ("GLOO_SOCKET_IFNAME", "eth9", False),
    ],
)
def test_named_interfaces_are_on_this_node(variable: str, names: str, there: bool) -> None:
    found = named_interfaces({variable: names}, THERE)
    assert [each.level for each in found] == ([] if there else ["bad"])
    assert all(f"{variable}={names}" in each.text and "eth0" in each.text for each in found)


@pytest.mark.parametrize(
    ("address", "level"), [("10.0.0.1", "ok"), (None, "bad"), ("127.0.0.1", "warn")], ids=["there", "unknown", "loop"]
)
def test_the_place_to_meet_resolves_and_is_one_node(address: str | None, level: str) -> None:
    found = master_finding(APART, address=address)
    assert found.level == level
    assert ("NodeAddr" in found.change) == (level != "ok")


def test_a_name_that_does_not_resolve_costs_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "resolved", lambda host: None)
    environment = {"MASTER_ADDR": "", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    found = {each.topic: each for each in network_findings(environment, APART)}
    assert (found["master"].level, found["gloo binds"].level, found["stream listens"].level) == ("bad", "bad", "warn")


def test_ranks_that_meet_on_the_loopback_are_on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "resolved", lambda host: "127.0.0.1")
    found = {each.topic: each.level for each in network_findings({}, APART)}
    assert (found["gloo binds"], found["master"]) == ("ok", "warn")
