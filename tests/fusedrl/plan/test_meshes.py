"""Meshes are whole nodes or parts of one node; every cut of the cluster in two is among them."""

import pytest

from fusedrl.plan.meshes import Mesh, meshes


def test_a_node_is_cut_into_powers_of_two() -> None:
    assert [str(mesh) for mesh in meshes(nodes=1, devices=4)] == ["0-3", "0-1", "2-3", "0-0", "1-1", "2-2", "3-3"]


def test_runs_of_nodes_cut_the_cluster_in_two_at_every_node() -> None:
    found = set(meshes(nodes=5, devices=8, smallest=8))
    assert all(Mesh(0, 8 * n) in found and Mesh(8 * n, 40 - 8 * n) in found for n in range(1, 5))
    assert all(mesh.first % 8 == mesh.count % 8 == 0 for mesh in found)


def test_smallest_leaves_small_ones_out() -> None:
    assert {mesh.count for mesh in meshes(nodes=2, devices=8, smallest=4)} == {16, 8, 4}


def test_meshes_meet_where_they_share_a_rank() -> None:
    assert Mesh(0, 4).meets(Mesh(3, 2))
    assert not Mesh(0, 4).meets(Mesh(4, 4))


def test_text_is_read_back_and_others_refused() -> None:
    assert Mesh.read("8-15") == Mesh(8, 8)
    with pytest.raises(ValueError, match="FIRST-LAST"):
        Mesh.read("7-3")
