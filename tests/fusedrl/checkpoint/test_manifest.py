"""Whatever was cut, removed or altered is told, naming the file; a state as it was written is taken."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fusedrl.checkpoint.manifest import MANIFEST, DamagedCheckpoint, Manifest, damage, read_manifest, write_manifest
from fusedrl.checkpoint.tensor_file import write_tensors

DATA = "rank_00001.safetensors"


def written(folder: Path) -> Manifest:
    names = [f"rank_{rank:05d}.safetensors" for rank in range(3)]
    files = {name: write_tensors(folder / name, {"x": torch.ones(4)}, metadata={"of": name}) for name in names}
    manifest = Manifest("ppo", 3, 3, {"kl_coef": 0.1}, files)
    write_manifest(folder, manifest)
    return manifest


def test_what_was_written_is_read_and_undamaged(tmp_path: Path) -> None:
    manifest = written(tmp_path)
    assert read_manifest(tmp_path) == manifest
    assert manifest.bytes == sum(path.stat().st_size for path in tmp_path.glob("rank*"))
    assert list(damage(tmp_path, manifest)) == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(("harm", "said"), [(cut, "bytes, "), (flip, "was altered"), (Path.unlink, "missing")])
def test_a_harmed_file_is_named_by_the_part_that_looks_at_it(
    harm: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    manifest = written(tmp_path)
    harm(tmp_path / DATA)
    (line,) = damage(tmp_path, manifest)
    assert str(tmp_path / DATA) in line
    assert said in line
    assert [bool(list(damage(tmp_path, manifest, part=part, parts=3))) for part in range(3)] == [False, True, False]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (cut, "missing or cut short"),
        (Path.unlink, "missing or cut short"),
        (lambda path: path.write_text("[]"), "missing or cut short"),
        (lambda path: path.write_text(path.read_text().replace('"kl_coef": 0.1', '"kl_coef": 0.2')), "was altered"),
    ],
)
def test_a_harmed_manifest_is_named(harm: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / MANIFEST
    path.write_text(path.read_text().rstrip("\n"))
    harm(path)
    with pytest.raises(DamagedCheckpoint, match=said) as told:
        read_manifest(tmp_path)
    assert str(path) in str(told.value)
