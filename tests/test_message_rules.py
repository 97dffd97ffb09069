"""Rules about messages that no run on gloo would find broken: they are read off the sources."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {str(path.relative_to(ROOT)): path for path in (ROOT / "fusedrl").rglob("*.py")}
COLLECTIVES = {
    "all_gather",
    "all_gather_bytes",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_bytes",
    "broadcast_object",
    "new_group",
    "reduce_scatter_tensor",
}
# in a condition: true on some ranks of a group only
RANK_ALONE = ("get_rank()", ".rank()", "writes", "speaks", "leads()", "holds()", ".place()")
MEMBERS = {"fusedrl/pipeline/messages.py"}  # its condition is "this rank is in the group", which is whom it concerns


def called(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.func.id if isinstance(node.func, ast.Name) else node.func.attr, node.lineno


def behind_a_rank(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Collectives inside a branch that depends on the rank."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and any(word in ast.unparse(node.test) for word in RANK_ALONE):
            for statement in (*node.body, *node.orelse):
                yield from ((name, line) for name, line in called(statement) if name in COLLECTIVES)


def test_the_search_for_collectives_finds_one() -> None:
    hidden = "if dist.get_rank() == 0:\n    save()\n    dist.barrier()\ndist.barrier()"
    assert list(behind_a_rank(ast.parse(hidden))) == [("barrier", 3)]
    assert len(SOURCES) > 100


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - MEMBERS))
def test_no_collective_is_behind_a_condition_on_the_rank(name: str) -> None:
    assert list(behind_a_rank(ast.parse(SOURCES[name].read_text()))) == []


def test_megatrons_schedules_and_messages_are_used_nowhere() -> None:
    """No handshake of shapes, no deallocated outputs, no loss divided by somebody else's number of micro-batches."""
    for name, path in SOURCES.items():
        modules = [
            module
            for node in ast.walk(ast.parse(path.read_text()))
            for module in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        ]
        assert not any(module.startswith("megatron.core.pipeline_parallel") for module in modules), name


def test_messages_of_a_pass_are_sent_one_by_one() -> None:
    """Never in batches, whose lists two ranks could cut differently."""
    for path in (ROOT / "fusedrl/pipeline").rglob("*.py"):
        assert "batch_isend_irecv" not in {name for name, _ in called(ast.parse(path.read_text()))}, path
