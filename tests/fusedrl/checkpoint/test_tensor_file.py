"""Files are plain safetensors; their checksum is that of the bytes on the disk; parts are read alone."""

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fusedrl.checkpoint.tensor_file import look_at, read_metadata, read_part, write_tensors

TENSORS = {
    "actor/param/weight": torch.arange(7, dtype=torch.float32) / 3,
    "empty": torch.empty(0),
    "random/cpu": torch.arange(5, dtype=torch.uint8),
}


def test_the_formats_own_library_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    written = write_tensors(path, TENSORS, metadata={"a": "b"})
    found = load_file(path)
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())
    assert read_metadata(path) == {"a": "b"}
    assert written.bytes == path.stat().st_size
    assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert look_at(path) == written


def test_a_part_is_read_alone(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS, metadata={})
    weight = TENSORS["actor/param/weight"]
    assert torch.equal(read_part(tmp_path / "file", "actor/param/weight", start=2, stop=5), weight[2:5])
    assert torch.equal(read_part(tmp_path / "file", "actor/param/weight"), weight)


def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    with pytest.raises(OSError, match="/dev/full: No space left on device"):
        write_tensors(Path("/dev/full"), TENSORS, metadata={})
