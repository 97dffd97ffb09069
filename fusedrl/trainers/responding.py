"""Responses to the prompts of a file: generated as one flow, written as their rows finish.

    rows that are not there yet -> flow (flowing.py) -> a row's n samples are finished -> its line (response_file.py)

A line has the row's own columns, so that it can be read as a row again, and its responses:

    {"index": 3, "prompt": "5+4-1=", "data_source": "sums", "reward_model": {"ground_truth": "8"},
     "responses": ["8", "7"], "finish_reasons": ["stop", "stop"], "response_lengths": [2, 2]}
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from fusedrl.checkpoint.saver import SaveError
from fusedrl.config.schema import GenerateConfig
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.models.hf_folder import HfFolder
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.evaluation import drawn_by, sampling_params
from fusedrl.trainers.generation import Generator
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.response_file import ResponseFile

EDGE = 1 << 20  # bytes at both ends of a file of weights that name it


@dataclass(frozen=True, eq=False)
class Responding:
    """A run on this rank. done: rows that are there already, the same on every rank; file: on rank 0."""

    config: GenerateConfig
    tokenizer: Tokenizer
    rows: Sequence[PromptRow]
    too_long: int
    done: frozenset[int]
    generator: Generator
    file: ResponseFile | None

    def run(self, *, told: Callable[[Sequence[Completion]], None] = lambda finished: None) -> int:
        """Generate and write what is left; the number of response tokens. told: hears of each row's responses. A
        collective of all ranks."""
        tokens = 0
        for index, completions in self._finished():
            tokens += sum(len(completion.tokens) for completion in completions)
            if self.file is not None:
                with saving():
                    self.file.write(index, self._line(self.rows[index], completions))
            told(completions)
        if self.file is not None:
            with saving():
                self.file.finish()
        return tokens

    def _finished(self) -> Iterator[tuple[int, list[Completion]]]:
        """Rows whose samples are all finished, these in order."""
        n = self.config.rollout.n
        params = sampling_params(self.config.rollout, self.config.data, self.config.trainer, self.tokenizer)
        prompts = {index: row.tokens for index, row in enumerate(self.rows) if index not in self.done}
        under_way: dict[int, list[Completion]] = {}
        for finished in self.generator.flow(prompts, n=n, params=params):
            for completion in finished:
                index = completion.sample_id // n
                under_way.setdefault(index, []).append(completion)
                if len(under_way[index]) == n:
                    yield index, sorted(under_way.pop(index), key=lambda each: each.sample_id)

    def _line(self, row: PromptRow, completions: Sequence[Completion]) -> dict[str, Any]:
        output = self.config.output
        columns: dict[str, Any] = {"prompt": row.prompt}
        columns |= {"data_source": row.data_source} if row.data_source else {}
        columns |= {} if row.ground_truth is None else {"reward_model": {"ground_truth": row.ground_truth}}
        columns |= {"extra_info": row.extra_info} if row.extra_info else {}
        columns["responses"] = [self.tokenizer.decode(each.tokens) for each in completions]
        columns["finish_reasons"] = [each.finish_reason for each in completions]
        columns["response_lengths"] = [len(each.tokens) for each in completions]
        columns |= {"response_tokens": [each.tokens for each in completions]} if output.tokens else {}
        return columns | ({"logprobs": [each.logprobs for each in completions]} if output.logprobs else {})


@contextmanager
def saving() -> Iterator[None]:
    """A disk that is full ends the run with a line, as it does for a saved state; what is written stays."""
    try:
        yield
    except OSError as error:
        raise SaveError(f"responses cannot be written: {error}") from error


def request_of(config: GenerateConfig, rows: Sequence[PromptRow]) -> dict[str, Any]:
    """What is asked, so that a run can tell whether responses that are there answer it. The layout is no part of it."""
    rollout, output = config.rollout, config.output
    prompts = msgpack.packb([row.tokens for row in rows])
    return {
        "model": config.model.path,
        "weights": weights_digest(config.model.path),
        "dtype": config.model.dtype,
        "engine": rollout.name,
        "rows": len(rows),
        "prompts": hashlib.sha256(prompts).hexdigest(),
        "n": rollout.n,
        **drawn_by(rollout, config.data, config.trainer),
        "tokens": output.tokens,
        "logprobs": output.logprobs,
    }


def weights_digest(folder: str) -> str:
    """Of config.json, and of the names, sizes and ends of the files of weights: training changes these, reading all
    would take as long as loading."""
    digest = hashlib.sha256((Path(folder) / "config.json").read_bytes())
    for path in HfFolder(folder).files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(EDGE))
            file.seek(max(0, size - EDGE))
            digest.update(file.read(EDGE))
    return digest.hexdigest()
