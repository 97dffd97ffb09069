"""A run's pairs of responses as the training of a reward model asks for them, drawn by the sampler."""

from collections.abc import Sequence
from dataclasses import dataclass

from fusedrl.config.schema import RMDataConfig
from fusedrl.data.pairs import Dropped, Pair, PairBatch, collate, tokenize, usable
from fusedrl.data.preferences import Preference, contrasted, near_misses, read_preferences
from fusedrl.data.sampler import RowSampler
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.trainers.prompting import rows_of


@dataclass(eq=False)
class PairSource:
    """Training pairs in the sampler's order, and all held-out pairs."""

    pairs: Sequence[Pair]
    validation: Sequence[Pair]
    sampler: RowSampler
    pad_id: int
    dropped: Dropped

    def next(self, count: int) -> PairBatch:
        return collate([self.pairs[index] for index in self.sampler.next(count)], pad_id=self.pad_id)


def preferences_of(data: RMDataConfig) -> tuple[list[Preference], list[Preference]]:
    """(training, held-out) pairs of files, or of a generated task."""
    if data.task.name is None:
        return read_preferences(data.train_files), read_preferences(data.val_files)
    train, held_out = rows_of(data)
    pairs = near_misses if data.rejected == "near" else contrasted
    return pairs(train), pairs(held_out)


def pair_source(data: RMDataConfig, tokenizer: Tokenizer) -> PairSource:
    """Raises ValueError naming the file and line of a row that cannot be used."""
    (pairs, dropped), (held_out, dropped_held_out) = (
        _usable(each, data, tokenizer) if each else ([], Dropped()) for each in preferences_of(data)
    )
    sampler = RowSampler(size=len(pairs), seed=data.seed, shuffle=data.shuffle)
    return PairSource(pairs, held_out, sampler, tokenizer.pad_token_id, dropped + dropped_held_out)


def _usable(preferences: Sequence[Preference], data: RMDataConfig, tokenizer: Tokenizer) -> tuple[list[Pair], Dropped]:
    pairs = [(preference, tokenize(preference, tokenizer)) for preference in preferences]
    return usable(pairs, limit=data.max_length, truncation=data.truncation, key="data.max_length")
