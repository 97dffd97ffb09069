"""Generated tasks of reasoning-gym: rows without files, each with what the task's own verifier needs.

    train, held_out = generate("chain_sum", {"min_terms": 3}, train_size=10000, held_out_size=200, seed=0)

No held-out prompt is a training prompt: distinct prompts are drawn first and set apart, and every entry with one of
these prompts is left out of training.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import reasoning_gym
from reasoning_gym.factory import DATASETS

from fusedrl.data.rows import Chat, Row

PREFIX = "reasoning_gym/"
_TRIES = 20  # entries drawn for each row asked for, before the task counts as too small


def generate(
    task: str,
    config: Mapping[str, Any],
    *,
    train_size: int,
    held_out_size: int,
    seed: int,
    prompt: str = "{question}",
    keep_spaces: bool = True,
    chat: bool = False,
    system: str | None = None,
) -> tuple[list[Row], list[Row]]:
    """(training rows, held-out rows), the same for the same arguments. Training prompts may repeat, as the task draws
    them. `prompt`: a template over the entry's question and metadata, such as "{expression}="; with `chat` it is what
    the user says, after the system's message where there is one.

    ValueError where the task is unknown, refuses its config, or has too few different prompts.
    """
    write = _Writer(prompt, keep_spaces, chat, system)
    limit = _TRIES * (train_size + held_out_size)
    held_out: dict[str, Row] = {}
    for row in _entries(task, config, seed=seed, limit=limit, write=write):
        if len(held_out) == held_out_size:
            break
        held_out.setdefault(str(row.prompt), row)
    train: list[Row] = []
    for row in _entries(task, config, seed=seed + 1, limit=limit, write=write):
        if len(train) == train_size:
            break
        if str(row.prompt) not in held_out:
            train.append(row)
    for key, found, wanted in (
        ("val_size", len(held_out), held_out_size),
        ("train_size", len(train), train_size),
    ):
        if found < wanted:
            raise ValueError(
                f"data.task.{key}={wanted}: {task} gave {found} such prompts; lower it, or widen data.task.config"
            )
    return train, list(held_out.values())


@dataclass(frozen=True)
class _Writer:
    """An entry's prompt as the model sees it; the verifier keeps the entry's own question."""

    template: str
    keep_spaces: bool
    chat: bool
    system: str | None

    def __call__(self, entry: Mapping[str, Any]) -> str | Chat:
        said = self._said(entry)
        if not self.chat:
            return said
        before = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*before, {"role": "user", "content": said}]

    def _said(self, entry: Mapping[str, Any]) -> str:
        fields = {**entry["metadata"], "question": entry["question"]}
        try:
            text = self.template.format(**fields)
        except (KeyError, IndexError, ValueError) as error:
            known = ", ".join(sorted(fields))
            raise ValueError(f"data.task.prompt={self.template!r}: {error}; an entry has {known}") from error
        return text if self.keep_spaces else text.replace(" ", "")


def _entries(
    task: str, config: Mapping[str, Any], *, seed: int, limit: int, write: Callable[[Mapping[str, Any]], str | Chat]
) -> Iterator[Row]:
    dataset = _dataset(task, config, seed=seed, size=limit)
    for index in range(limit):
        entry = dataset[index]
        yield Row(
            prompt=write(entry),
            data_source=PREFIX + task,
            ground_truth=entry["answer"],
            extra_info={"metadata": _plain(entry["metadata"]), "question": entry["question"]},
            place=f"{task}[{index}] of seed {seed}",
        )


def _dataset(task: str, config: Mapping[str, Any], *, seed: int, size: int) -> Any:
    if task not in DATASETS:
        raise ValueError(f"data.task.name={task}: reasoning-gym has no such task; see reasoning_gym.factory.DATASETS")
    try:
        return reasoning_gym.create_dataset(task, seed=seed, size=size, **config)
    except (TypeError, ValueError, AssertionError) as error:
        raise ValueError(f"data.task.config={dict(config)}: {task} refuses it: {error}") from error


def _plain(value: Any) -> Any:
    """Metadata as msgpack and JSON carry it: tuples become lists, keys text, the rest of other kinds text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
