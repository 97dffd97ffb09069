"""Sheets of devices and clusters."""

from pathlib import Path

import pytest

from fusedrl.plan.cluster import read_cluster, read_device
from fusedrl.plan.sheet import SHEETS
from schedules.transformer.device import DEVICES


def test_a_name_tells_device_and_sizes() -> None:
    cluster = read_cluster("a100_3x4")
    assert (cluster.device.name, cluster.nodes, cluster.devices, cluster.world) == ("a100", 3, 4, 12)
    assert cluster.between.bandwidth == 25e9 * cluster.device.reached.link


def test_sheets_and_schedules_tell_the_same_peaks_and_links() -> None:
    for name, device in DEVICES.items():
        cluster = read_cluster(f"{name}_2x8")
        assert cluster.device.peak["bfloat16"] == device.peak
        assert cluster.between.bandwidth == device.bandwidth * cluster.device.reached.link


def test_a_cluster_of_ones_own_keeps_the_links_that_it_does_not_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("device: h100\nnodes: 2\ndevices: 4\nbetween: {gb_s: 10, latency_us: 30}\n")
    mine, usual = read_cluster(str(path)), read_cluster("h100_2x4")
    assert mine.inside == usual.inside
    assert mine.between.bandwidth == 1e10 * mine.device.reached.link
    assert mine.between.latency == pytest.approx(30e-6)


def test_groups_lie_on_as_many_nodes_as_they_span() -> None:
    cluster = read_cluster("h100_4x8")
    assert [cluster.nodes_of(ranks) for ranks in (1, 8, 16)] == [1, 1, 2]
    assert cluster.nodes_of(4, stride=8) == 4
    assert cluster.nodes_of(2, stride=4) == 1


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("h100_16", None, r"cluster=h100_16: there is no such sheet; .*DEVICE_NODESxDEVICES"),
        ("h10_2x8", None, "device=h10: there is no such sheet; did you mean h100"),
        ("mine.yaml", "device: h100\nnodes: 2\ndevices: 4\nlinks: 3\n", "links: no such key; there are"),
        ("mine.yaml", "device: h100\nnodes: 0\ndevices: 4\n", "nodes=0 must be a whole number of at least 1"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
        name = str(tmp_path / name)
    with pytest.raises(ValueError, match=told):
        read_cluster(name)


def test_a_share_is_at_most_one(tmp_path: Path) -> None:
    text = (SHEETS / "device" / "h100.yaml").read_text()
    (tmp_path / "d.yaml").write_text(text.replace("matrix: 0.6", "matrix: 1.6"))
    with pytest.raises(ValueError, match=r"matrix=1.6 is a share and must be at most 1"):
        read_device(str(tmp_path / "d.yaml"))
