"""Imports point one way (docs/architecture.md); this reads every module's imports and holds it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MEGATRON_ROOMS = ("megatron_patches", "fusedrl.models", "fusedrl.parallel", "fusedrl.pipeline", "fusedrl.rollout")
# room -> what it must never import
FORBIDDEN = {
    "schedules": ("torch", "megatron", "fusedrl", "megatron_patches"),
    "megatron_patches": ("fusedrl", "schedules"),
    "fusedrl.parallel": ("fusedrl.pipeline", "fusedrl.trainers", "fusedrl.rollout", "schedules"),
    "fusedrl.models": ("fusedrl.pipeline", "fusedrl.trainers", "fusedrl.rollout", "schedules"),
    "fusedrl.pipeline": ("fusedrl.trainers", "fusedrl.rollout"),
    "fusedrl.rollout": ("fusedrl.trainers", "fusedrl.pipeline"),
    "fusedrl.stream": (
        "megatron",
        "megatron_patches",
        "fusedrl.models",
        "fusedrl.trainers",
        "fusedrl.pipeline",
        "schedules",
    ),
    "fusedrl.config": ("torch", "megatron", "fusedrl.trainers"),
    "fusedrl.machine": ("megatron", "megatron_patches", "schedules", "fusedrl.models", "fusedrl.pipeline"),
    "fusedrl.data": ("megatron", "fusedrl.trainers", "fusedrl.models"),
    "fusedrl.rewards": ("torch", "megatron", "fusedrl.trainers"),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def modules() -> list[Path]:
    rooms = [ROOT / room for room in ("schedules", "fusedrl", "megatron_patches")]
    return sorted(path for room in rooms for path in room.rglob("*.py"))


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


@pytest.mark.parametrize("room", FORBIDDEN)
def test_room_imports_nothing_forbidden(room: str) -> None:
    broken = [
        f"{module_name(path)} imports {imported}"
        for path in modules()
        if within(module_name(path), room)
        for imported in imports_of(path)
        if any(within(imported, other) for other in FORBIDDEN[room])
    ]
    assert not broken


def test_rl_imports_torch_alone() -> None:
    library = ("dataclasses", "typing", "math", "collections", "enum", "functools", "heapq", "bisect")
    allowed = ("torch", "fusedrl.rl", *library)
    broken = [
        f"{module_name(path)} imports {imported}"
        for path in modules()
        if within(module_name(path), "fusedrl.rl")
        for imported in imports_of(path)
        if not any(within(imported, other) for other in allowed)
    ]
    assert not broken


def test_megatron_is_imported_in_its_rooms_only() -> None:
    broken = [
        f"{module_name(path)} imports {imported}"
        for path in modules()
        if not any(within(module_name(path), room) for room in MEGATRON_ROOMS)
        for imported in imports_of(path)
        if within(imported, "megatron")
    ]
    assert not broken
