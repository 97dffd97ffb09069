"""Files and folders that are whole or absent: written beside their place, flushed, then renamed into it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def write_file(path: Path, data: str | bytes) -> None:
    """Replace `path` by `data`; a reader, or a run killed meanwhile, sees the old file or the new one, never a part."""
    with new_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Yields a file to fill; it becomes `path`, replacing an older one, when the block ends without an error.

    Raises OSError that names `path`, also where the system's error names no file (a full disk).
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        beside.unlink(missing_ok=True)
    _flush_names(path.parent)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a folder to fill; it becomes `path`, replacing an older one, when the block ends without an error."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        publish_folder(beside, path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def publish_folder(filled: Path, path: Path) -> None:
    """Rename a filled folder of the same file system to `path`, replacing an older one.

    A folder cannot be renamed over a full one: the old one steps aside first, and is deleted last.
    """
    for file in filled.rglob("*"):
        if file.is_file():
            _flush(file)
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    filled.rename(path)
    _flush_names(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_flush_names = _flush  # a folder's own data are the names in it
