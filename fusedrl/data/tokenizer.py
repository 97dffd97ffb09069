"""A Hugging Face tokenizer, used one way everywhere.

A prompt is encoded once: a chat goes through the template, which writes its own special tokens, and text is encoded
with the tokenizer's, unless it spells the first one itself; never both, so no token is doubled. The end of a response
is any of a set of ids: the tokenizer's and generation_config.json's. Masks never come from ids, so a pad id that equals
an end id is harmless.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from fusedrl.data.json_object import JsonObject
from fusedrl.data.rows import Row

FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt")


def has_tokenizer(folder: str | Path) -> bool:
    """Whether a folder holds a tokenizer's files, of any kind."""
    return any((Path(folder) / name).is_file() for name in FILES)


class Tokenizer:
    """The tokenizer of a checkpoint folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"{folder}: no tokenizer can be loaded from there: {reason}") from error
        self.stop_token_ids = frozenset(self._stop_ids())
        if not self.stop_token_ids:
            raise ValueError(f"{folder}: neither the tokenizer nor generation_config.json names an end token")
        pad = self._tokenizer.pad_token_id
        self.pad_token_id = min(self.stop_token_ids) if pad is None else int(pad)
        self._unknown_becomes_pad = pad is not None and _unknown_of(self._tokenizer) == self._tokenizer.pad_token

    @property
    def vocab_size(self) -> int:
        return max(self._tokenizer.get_vocab().values()) + 1

    @property
    def end_token_id(self) -> int:
        """The one that is put behind text."""
        end = self._tokenizer.eos_token_id
        return min(self.stop_token_ids) if end is None else int(end)

    def reads(self, other: "Tokenizer") -> bool:
        """Whether the other's ids mean the same to this one, and texts begin and end alike. It may have more of them,
        as where training added one for padding, which no model reads."""
        mine, theirs = self._tokenizer, other._tokenizer
        same_specials = all(getattr(mine, name) == getattr(theirs, name) for name in ("bos_token", "eos_token"))
        return same_specials and theirs.get_vocab().items() <= mine.get_vocab().items()

    def encode_prompt(self, row: Row) -> tuple[int, ...]:
        """Tokens of a row's prompt, ready for a response to follow."""
        if isinstance(row.prompt, str):
            spelled = self._tokenizer.bos_token is not None and row.prompt.startswith(self._tokenizer.bos_token)
            tokens = self._tokenizer(row.prompt, add_special_tokens=not spelled)["input_ids"]
            return self._checked(row.prompt, tokens, place=row.place)
        try:
            text = self._tokenizer.apply_chat_template(
                [dict(message) for message in row.prompt], tokenize=False, add_generation_prompt=True
            )
        except (ValueError, TypeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"{row.place}: the prompt is a chat, but {self.folder}: {reason}") from error
        return self._checked(text, self._tokenizer(text, add_special_tokens=False)["input_ids"], place=row.place)

    def encode_answer(self, text: str, *, place: str = "") -> tuple[int, ...]:
        """Tokens of an answer and the end token."""
        tokens = self._checked(text, self._tokenizer(text, add_special_tokens=False)["input_ids"], place=place)
        return (*tokens, self.end_token_id)

    def encode_response(self, text: str, *, place: str = "") -> tuple[int, ...]:
        """Tokens of a response as generation leaves it: it ends with its first end token.

        One that the text spells itself is not doubled. Raises ValueError where text goes on after it.
        """
        *tokens, end = self.encode_answer(text, place=place)
        ends = [index for index, token in enumerate(tokens) if token in self.stop_token_ids]
        if not ends:
            return (*tokens, end)
        if after := self.decode(tokens[ends[0] + 1 :]).strip():
            told = f"the response goes on after an end token, with {after[:40]!r}"
            raise ValueError(f"{place or 'text'}: {told}; end it there")
        return tuple(tokens[: ends[0] + 1])

    def encode_generated(self, text: str, *, ended: bool) -> tuple[int, ...]:
        """Tokens of a response to a model of another tokenizer, and where it `ended` the end token.

        Whatever it says is text: a special token that it spells is none, and what this tokenizer does not know becomes
        its unknown token.
        """
        tokens = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return (*tokens, self.end_token_id) if ended else tuple(tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text without special tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _stop_ids(self) -> set[int]:
        found = set() if self._tokenizer.eos_token_id is None else {int(self._tokenizer.eos_token_id)}
        path = self.folder / "generation_config.json"
        return found | set(JsonObject.read(path).token_ids("eos_token_id") if path.is_file() else ())

    def _checked(self, text: str, tokens: Sequence[int], *, place: str) -> tuple[int, ...]:
        """A tokenizer of characters has no id for others: it puts its pad id there, besides those the text spells."""
        if self._unknown_becomes_pad and list(tokens).count(self.pad_token_id) > text.count(self._tokenizer.pad_token):
            raise ValueError(
                f"{place or 'text'}: {text!r} holds a character that the tokenizer of {self.folder} does not know"
            )
        return tuple(tokens)


def _unknown_of(tokenizer: Any) -> str | None:
    """The token that the model behind a fast tokenizer puts for what it does not know."""
    return getattr(getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None), "unk_token", None)
