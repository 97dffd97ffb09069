"""A run's rows as the loops ask for them: tokenised once, too long ones dealt with, drawn by the sampler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusedrl.config.schema import BaseDataConfig, PPODataConfig, PromptDataConfig, SFTDataConfig, TaskConfig
from fusedrl.data.files import read_rows
from fusedrl.data.lengths import within
from fusedrl.data.rows import Chat, Row
from fusedrl.data.sampler import RowSampler
from fusedrl.data.sft import Batch, Example, collate
from fusedrl.data.tasks import generate
from fusedrl.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class PromptRow:
    """A prompt's tokens and what its responses are judged by; `prompt` as the row has it."""

    tokens: tuple[int, ...]
    data_source: str
    ground_truth: Any
    extra_info: Mapping[str, Any]
    prompt: str | Chat = ""


@dataclass(eq=False)
class PromptSource:
    """Training prompts in the sampler's order, and all validation prompts."""

    tokenizer: Tokenizer
    train: Sequence[PromptRow]
    validation: Sequence[PromptRow]
    sampler: RowSampler
    too_long: int

    def next(self, count: int) -> list[PromptRow]:
        return [self.train[index] for index in self.sampler.next(count)]

    @property
    def stop_token_ids(self) -> frozenset[int]:
        return self.tokenizer.stop_token_ids

    @property
    def pad_token_id(self) -> int:
        return self.tokenizer.pad_token_id

    def decode(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode(tokens)


@dataclass(eq=False)
class ExampleSource:
    """Training examples of SFT in the sampler's order, and all held-out examples."""

    examples: Sequence[Example]
    validation: Sequence[Example]
    sampler: RowSampler
    pad_id: int
    too_long: int

    def next(self, count: int) -> Batch:
        return collate([self.examples[index] for index in self.sampler.next(count)], pad_id=self.pad_id)


def rows_of(data: BaseDataConfig) -> tuple[list[Row], list[Row]]:
    """(training, validation) rows of files or of a generated task."""
    if data.task.name is None:
        return read_rows(data.train_files), read_rows(data.val_files)
    return _generated(data.task)


def held_out_prompts(data: PromptDataConfig, files: Sequence[str], tokenizer: Tokenizer) -> tuple[list[PromptRow], int]:
    """(prompts of the files, or those that a generated task holds out; how many were too long). Raises ValueError
    naming the file and line of a row that cannot be used."""
    rows = read_rows(files) if data.task.name is None else _generated(data.task)[1]
    return _prompts(rows, data, tokenizer)


def _generated(task: TaskConfig) -> tuple[list[Row], list[Row]]:
    assert task.name is not None
    return generate(
        task.name,
        task.config,
        train_size=task.train_size,
        held_out_size=task.val_size,
        seed=task.seed,
        prompt=task.prompt,
        keep_spaces=task.keep_spaces,
        chat=task.chat,
        system=task.system,
    )


def prompt_source(data: PPODataConfig, tokenizer: Tokenizer) -> PromptSource:
    """PPO's prompts. Raises ValueError naming the file and line of a row that cannot be used."""
    train, validation = rows_of(data)
    kept, too_long = _prompts(train, data, tokenizer)
    held_out, too_long_held_out = _prompts(validation, data, tokenizer) if validation else ([], 0)
    sampler = RowSampler(size=len(kept), seed=data.seed, shuffle=data.shuffle)
    return PromptSource(tokenizer, kept, held_out, sampler, too_long + too_long_held_out)


def example_source(data: SFTDataConfig, tokenizer: Tokenizer) -> ExampleSource:
    """SFT's examples: each row's ground truth is the answer to learn."""
    (examples, too_long), (held_out, too_long_held_out) = (
        _examples(rows, data, tokenizer) if rows else ([], 0) for rows in rows_of(data)
    )
    sampler = RowSampler(size=len(examples), seed=data.seed, shuffle=data.shuffle)
    return ExampleSource(examples, held_out, sampler, tokenizer.pad_token_id, too_long + too_long_held_out)


def _examples(rows: Sequence[Row], data: SFTDataConfig, tokenizer: Tokenizer) -> tuple[list[Example], int]:
    pairs, starts = [], {}
    for row in rows:
        prompt = tokenizer.encode_prompt(row)
        starts[id(row)] = len(prompt)
        pairs.append((row, (*prompt, *tokenizer.encode_answer(_answer(row), place=row.place))))
    truncation = "filter" if data.truncation == "truncate" else data.truncation  # a cut answer would teach not to end
    kept, too_long = within(pairs, limit=data.max_length, truncation=truncation, key="data.max_length")
    return [Example(tokens, starts[id(row)]) for row, tokens in kept], too_long


def _answer(row: Row) -> str:
    if not isinstance(row.ground_truth, str) or not row.ground_truth:
        raise ValueError(f"{row.place}: no answer to learn: give text as answer, or as reward_model.ground_truth")
    return row.ground_truth


def _prompts(
    rows: Sequence[Row], data: PPODataConfig | PromptDataConfig, tokenizer: Tokenizer
) -> tuple[list[PromptRow], int]:
    pairs = [(row, tokenizer.encode_prompt(row)) for row in rows]
    kept, too_long = within(
        pairs, limit=data.max_prompt_length, truncation=data.truncation, key="data.max_prompt_length"
    )
    found = [PromptRow(tokens, row.data_source, row.ground_truth, row.extra_info, row.prompt) for row, tokens in kept]
    return found, too_long
