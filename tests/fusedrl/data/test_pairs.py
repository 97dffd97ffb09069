from pathlib import Path

import pytest
import torch

from fusedrl.data.pairs import Dropped, Pair, collate, cut, tokenize, usable
from fusedrl.data.preferences import Preference
from fusedrl.data.rows import Row
from fusedrl.data.tokenizer import Tokenizer
from tests.fusedrl.data.test_tokenizer import write_words

KEY = "data.max_length"
PLACES = [Preference("p", "c", "r", place=f"f:{line}") for line in (1, 2, 3)]


def pair(prompt: int, chosen: int, rejected: int, *, margin: float = 0.0) -> Pair:
    """Of so many tokens each, all different."""
    return Pair(tuple(range(10, 10 + prompt)), tuple(range(20, 20 + chosen)), tuple(range(40, 40 + rejected)), margin)


def test_prompt_and_responses_have_the_tokens_that_ppo_gives_them(tmp_path: Path) -> None:
    """The template once, no second first token, and the end that generation stops at."""
    tokenizer = Tokenizer(write_words(tmp_path))
    chat = [{"role": "user", "content": "what is it"}]
    found = tokenize(Preference(chat, "seven", "it is", 0.5, "f:1"), tokenizer)
    assert found == Pair(tokenizer.encode_prompt(Row(prompt=chat)), (7, 1), (6, 5, 1), 0.5)
    assert found.prompt == (0, 2, 4, 5, 6, 3)


def test_a_prompt_without_a_token_is_an_error_at_its_row(tmp_path: Path) -> None:
    tokenizer = Tokenizer(write_words(tmp_path, template=" "))
    with pytest.raises(ValueError, match="f:7: the prompt has no token"):
        tokenize(Preference([{"role": "user", "content": "what"}], "it", "is", place="f:7"), tokenizer)


def test_rows_alternate_and_lengths_are_those_of_the_longer_row() -> None:
    batch = collate([pair(2, 1, 3, margin=1.5), pair(1, 2, 1)], pad_id=0)
    assert batch.tokens_BS.tolist() == [
        [10, 11, 20, 0, 0],
        [10, 11, 40, 41, 42],
        [10, 20, 21, 0, 0],
        [10, 40, 0, 0, 0],
    ]
    assert batch.lengths_B.tolist() == [3, 5, 3, 2]
    assert batch.prompt_lengths_B.tolist() == [2, 2, 1, 1]
    assert batch.lengths_P.tolist() == [5, 3]
    assert batch.margins_P.tolist() == [1.5, 0.0]
    assert batch.pairs == 2
    assert batch.tokens_BS.dtype == torch.int64


def test_too_long_pairs_are_left_out_and_counted() -> None:
    pairs = [pair(2, 1, 3), pair(2, 1, 4), pair(3, 3, 1)]
    kept, dropped = usable(list(zip(PLACES, pairs, strict=True)), limit=5, truncation="filter", key=KEY)
    assert kept == [pairs[0]]
    assert dropped == Dropped(too_long=2)


def test_error_names_the_pair_s_row_the_numbers_and_the_key() -> None:
    pairs = list(zip(PLACES, [pair(2, 1, 3), pair(2, 1, 4), pair(1, 1, 1)], strict=True))
    with pytest.raises(ValueError, match=r"f:2: 6 tokens, data\.max_length=5; raise it, or set data\.truncation"):
        usable(pairs, limit=5, truncation="error", key=KEY)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((4, 1, 3), (2, 1, 3)),  # the prompt gives way, the same for both
        ((4, 3, 1), (2, 3, 1)),
        ((4, 1, 9), (1, 1, 4)),  # a last token of it stays; the response loses its end
        ((1, 9, 2), (1, 4, 2)),
        ((9, 1, 1), (4, 1, 1)),
    ],
)
def test_cutting_takes_the_prompt_s_beginning_then_the_response_s_end(
    lengths: tuple[int, int, int], expected: tuple[int, int, int]
) -> None:
    whole, kept = pair(*lengths), cut(pair(*lengths), limit=5)
    assert (len(kept.prompt), len(kept.chosen), len(kept.rejected)) == expected
    assert kept.length == 5
    assert whole.prompt[-len(kept.prompt) :] == kept.prompt
    assert whole.chosen[: len(kept.chosen)] == kept.chosen
    assert whole.rejected[: len(kept.rejected)] == kept.rejected


def test_cut_pairs_are_counted_and_those_that_fit_untouched() -> None:
    pairs = [pair(2, 1, 3), pair(4, 1, 3), pair(1, 1, 4)]
    kept, dropped = usable(list(zip(PLACES, pairs, strict=True)), limit=5, truncation="truncate", key=KEY)
    assert kept == [pairs[0], cut(pairs[1], limit=5), pairs[2]]
    assert dropped == Dropped(too_long=1)


def test_equal_responses_are_left_out_also_where_cutting_made_them_equal() -> None:
    same, alike = Pair((5,), (7, 2), (7, 2)), Pair((5,), (7, 8, 9, 2), (7, 8, 9, 3))
    pairs = list(zip(PLACES, [same, alike, pair(1, 1, 1)], strict=True))
    kept, dropped = usable(pairs, limit=4, truncation="truncate", key=KEY)
    assert kept == [pair(1, 1, 1)]
    assert dropped == Dropped(too_long=1, equal=2)
    assert dropped + dropped == Dropped(too_long=2, equal=4)


def test_no_pair_left_is_an_error_that_tells_why() -> None:
    pairs = list(zip(PLACES, [pair(9, 1, 1), pair(9, 1, 1), Pair((5,), (7,), (7,))], strict=True))
    with pytest.raises(ValueError, match=r"no pair is left of 3: 2 were longer than data\.max_length=5, 1 had equal"):
        usable(pairs, limit=5, truncation="filter", key=KEY)
