"""The file of responses: grows a row a line while they finish, whole and in the rows' order at the end, resumable.

    responses.jsonl.request.json     what was asked: model, prompts, sampling
    responses.jsonl.part             rows as they finish; a line that a kill cut short goes when the run goes on
    responses.jsonl                  all rows, in order; there only when all of them are

A run of the same request goes on with the rows that are there. One of another request does not touch them.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.atomic import new_file, write_file

Request = Mapping[str, Any]


def request_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.request.json")


def part_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def other_request(path: Path, request: Request) -> str | None:
    """Why responses there are not of this request; None where they are, or where there are none."""
    if not (path.exists() or part_path(path).exists()):
        return None
    remedy = "name another output.path, or start afresh with trainer.resume_mode=disable"
    try:
        there = json.loads(request_path(path).read_text())
    except (OSError, ValueError):
        return f"output.path={path}: a file of responses is there, without a record of what was asked; {remedy}"
    now = json.loads(json.dumps(request))
    names = [name for name in {**now, **there} if now.get(name) != there.get(name)]
    told = ", ".join(f"{name}: {_shown(there.get(name))} there, {_shown(now.get(name))} here" for name in names)
    return f"output.path={path}: responses to another request are there ({told}); {remedy}" if names else None


class ResponseFile:
    """Open for writing, on one rank. afresh: drop what is there. Raises ValueError where it is of another request."""

    def __init__(self, path: Path, request: Request, *, afresh: bool) -> None:
        self._path, self._places = path, dict[int, tuple[int, int]]()
        if afresh:
            for each in (path, part_path(path), request_path(path)):
                each.unlink(missing_ok=True)
        if problem := other_request(path, request):
            raise ValueError(problem)
        self.finished = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(request_path(path), json.dumps(request, indent=2) + "\n")
        if not self.finished:
            self._descriptor = os.open(part_path(path), os.O_RDWR | os.O_CREAT, 0o644)
            self._end = self._repair()

    @property
    def done(self) -> frozenset[int]:
        """Rows that are there."""
        return frozenset(self._places)

    def write(self, index: int, line: Mapping[str, Any]) -> None:
        """A row, once."""
        assert index not in self._places
        data = (json.dumps({"index": index, **line}, default=str) + "\n").encode()
        written = os.pwrite(self._descriptor, data, self._end)
        if written != len(data):
            os.ftruncate(self._descriptor, self._end)
            raise OSError(f"{part_path(self._path)}: {written} of {len(data)} bytes of row {index}: is the disk full?")
        self._places[index] = self._end, len(data)
        self._end += len(data)

    def finish(self) -> None:
        """All rows are written: put them in order."""
        with new_file(self._path) as file:
            for _, (start, length) in sorted(self._places.items()):
                file.write(os.pread(self._descriptor, length, start))
        self.finished = True
        self.close()
        part_path(self._path).unlink()

    def close(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)
            del self._descriptor

    def _repair(self) -> int:
        """Find the whole lines and cut off what follows them; where they end."""
        end = 0
        with part_path(self._path).open("rb") as file:
            for line in file:
                index = _index(line)
                if index is None or index in self._places:
                    break
                self._places[index] = end, len(line)
                end += len(line)
        os.ftruncate(self._descriptor, end)
        return end


def _index(line: bytes) -> int | None:
    """The row's number, of a whole line."""
    try:
        found = json.loads(line)["index"] if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
