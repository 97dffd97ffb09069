"""A reward model of another tokenizer reads the samples' text, as Hugging Face does; one of the same, their tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from fusedrl.data.characters import write_character_tokenizer
from fusedrl.data.pairs import tokenize
from fusedrl.data.preferences import Preference
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.models.weights import VALUE_HEAD
from fusedrl.rollout.requests import Completion, FinishReason
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.retokenizing import Retokenizer, make_retokenizer
from tests.distributed.pool import RankPool
from tests.fusedrl.config.conftest import ppo
from tests.fusedrl.data.test_tokenizer import write_words
from tests.fusedrl.trainers.test_ppo_runs import overrides
from tests.fusedrl.trainers.test_preflight import model

QUESTION = [{"role": "user", "content": "what is it"}]


@pytest.fixture(scope="module")
def actor(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("actor")
    write_character_tokenizer(folder, "abcdefghijklmnopqrstuvwxyz </>?")
    return Tokenizer(folder)


def retokenizer(folder: Path, actor: Tokenizer, *, limit: int = 64) -> Retokenizer:
    """To words that begin with <s>."""
    return Retokenizer(Tokenizer(write_words(folder, pad="</s>")), actor.decode, limit=limit)


def row(actor: Tokenizer, text: str, *, chat: bool = False) -> PromptRow:
    return PromptRow(actor.encode_answer(text)[:-1], "", "", {}, QUESTION if chat else text)


def completion(actor: Tokenizer, text: str, *, reason: FinishReason = "stop") -> Completion:
    tokens = actor.encode_generated(text, ended=reason == "stop")
    return Completion(sample_id=0, prompt=(1,), tokens=tokens, logprobs=(-1.0,) * len(tokens), finish_reason=reason)


def rows_of(made: Retokenizer, rows: list[PromptRow], completions: list[Completion]) -> list[list[int]]:
    samples = made.samples(rows, completions)
    pairs = zip(samples.tokens_BS.tolist(), samples.lengths_B.tolist(), strict=True)
    return [tokens[:length] for tokens, length in pairs]


@pytest.mark.parametrize("chat", [True, False])
def test_a_row_is_what_training_of_the_reward_model_makes_of_it(tmp_path: Path, actor: Tokenizer, chat: bool) -> None:
    made = retokenizer(tmp_path, actor)
    finished = completion(actor, "is seven")
    (found,) = rows_of(made, [row(actor, "what is it", chat=chat)], [finished])
    pair = tokenize(Preference(QUESTION if chat else "what is it", "is seven", "it"), made.tokenizer)
    assert tuple(found) == pair.prompt + pair.chosen
    assert found == ([0, 2, 4, 5, 6, 3, 5, 7, 1] if chat else [0, 4, 5, 6, 5, 7, 1])
    if chat:  # the whole conversation through Hugging Face's template says the same
        turns = [*QUESTION, {"role": "assistant", "content": "is seven"}]
        assert AutoTokenizer.from_pretrained(str(tmp_path)).apply_chat_template(turns)["input_ids"] == found[:-1]


def test_what_came_to_no_end_has_none_and_neighbours_share_their_prompt(tmp_path: Path, actor: Tokenizer) -> None:
    texts = ("seven", "what"), ("is", "")
    given = [completion(actor, text, reason=reason) for two in texts for text, reason in zip(two, REASONS, strict=True)]
    found = rows_of(retokenizer(tmp_path, actor), [row(actor, "it"), row(actor, "what is")], given)
    assert found == [[0, 6, 7, 1], [0, 6, 4], [0, 4, 5, 5, 1], [0, 4, 5]]


REASONS: tuple[FinishReason, FinishReason] = ("stop", "length")


def test_a_response_that_spells_an_end_token_has_none_by_that(tmp_path: Path, actor: Tokenizer) -> None:
    write_character_tokenizer(tmp_path, "<eos>")
    made = Retokenizer(Tokenizer(tmp_path), actor.decode, limit=9)
    (found,) = rows_of(made, [row(actor, "s")], [completion(actor, "<eos>?")])
    assert found == [6, 3, 4, 5, 6, 7, 0, 2]  # <pad> stands for a character that the tokenizer does not know


def test_rows_that_are_too_long_lose_their_beginning_and_are_counted(tmp_path: Path, actor: Tokenizer) -> None:
    made = retokenizer(tmp_path, actor, limit=4)
    given = [completion(actor, text) for text in ("seven", "is it seven", "what is it seven")]
    found = rows_of(made, [row(actor, "what")], given)
    assert found == [[0, 4, 7, 1], [5, 6, 7, 1], [5, 6, 7, 1]]
    assert (made.take_cut(), made.take_cut()) == (2, 0)


def test_a_row_without_any_text_has_the_end_token(tmp_path: Path, actor: Tokenizer) -> None:
    write_character_tokenizer(tmp_path, "ab")
    made = Retokenizer(Tokenizer(tmp_path), actor.decode, limit=9)
    assert rows_of(made, [row(actor, "")], [completion(actor, "", reason="length")]) == [[2]]


def made_for(folders: dict[str, str], *more: str) -> Retokenizer | None:
    paths = [f"{key}.model.path={folders[name]}" for name, key in KEYS.items()]
    return make_retokenizer(ppo("reward_model.enable=true", *paths, *more), Tokenizer(folders["actor"]))


KEYS = {"actor": "actor_rollout_ref", "reward": "reward_model"}


def test_vocabularies_and_special_tokens_decide_and_not_names_or_padding(tmp_path: Path) -> None:
    folders = {"actor": model(tmp_path / "actor"), "reward": model(tmp_path / "reward", head="value", vocab_size=24)}
    assert made_for(folders) is None
    assert made_for(folders, f"reward_model.model.input_tokenizer={folders['actor']}") is not None
    settings = Path(folders["reward"]) / "tokenizer_config.json"
    written = json.loads(settings.read_text())
    settings.write_text(json.dumps(written | {"pad_token": "<eos>", "tokenizer_class": "TokenizersBackend"}))
    assert made_for(folders) is None
    settings.write_text(json.dumps(written | {"pad_token": "<more>"}))  # beyond the actor's
    assert made_for(folders) is None
    settings.write_text(json.dumps(written | {"eos_token": "="}))
    assert made_for(folders) is not None
    settings.write_text(json.dumps(written))
    small = model(tmp_path / "small", head="value", alphabet="0123456789+-=", vocab_size=15)
    with pytest.raises(ValueError, match="its tokenizer has 16 tokens, the model 15"):
        made_for(folders | {"reward": small})


def test_a_row_is_no_longer_than_positions_and_budget_allow(tmp_path: Path) -> None:
    folders = {"actor": model(tmp_path / "a"), "reward": model(tmp_path / "r", head="value", alphabet="=-+9876543210")}
    budget = ["reward_model.use_dynamic_bsz=true", "reward_model.forward_max_token_len_per_gpu=51"]
    shared = [f"reward_model.megatron.{key}" for key in ("tensor_model_parallel_size=2", "sequence_parallel=true")]
    found = [made_for(folders, *more) for more in ([], budget, [*budget, *shared])]
    assert [each and each.limit for each in found] == [64, 51, 50]


def reward_model(folder: Path, *, alphabet: str) -> str:
    """With a head that is not zero."""
    path = Path(model(folder, head="value", alphabet=alphabet)) / "model.safetensors"
    weights = load_file(path)
    weights[VALUE_HEAD] = torch.randn(weights[VALUE_HEAD].shape, generator=torch.Generator().manual_seed(0))
    save_file(weights, path, metadata={"format": "pt"})
    return str(folder)


def by_hand(folder: Path, rows: list[Any], *, as_text: bool) -> list[float]:
    """Text, then Hugging Face's tokenizer and model, a row at a time."""
    name = "other" if as_text else "same"
    hf = AutoModelForSequenceClassification.from_pretrained(str(folder / name), dtype=torch.float64)
    actor, other = (AutoTokenizer.from_pretrained(str(folder / each)) for each in ("actor", name))
    found = []
    for tokens, ended in rows:
        text = actor.decode(tokens, skip_special_tokens=True)
        read = other(text)["input_ids"] + [other.eos_token_id] * ended if as_text else tokens
        with torch.no_grad():
            found.append(3 * float(hf.score(hf.model(torch.tensor([read])).last_hidden_state[0, -1])))
    return found


def test_scores_equal_hugging_faces_of_the_text_in_the_pipeline_and_on_instances(
    ranks: RankPool, tmp_path: Path
) -> None:
    actor = model(tmp_path / "actor")
    other = f"reward_model.model.path={reward_model(tmp_path / 'other', alphabet=' =-+9876543210')}"
    same = f"reward_model.model.path={reward_model(tmp_path / 'same', alphabet='0123456789+-=')}"
    base = ["algorithm=grpo", "parallel=pp2", "data.max_response_length=6", "reward_model.weight=3"]
    base += ["reward_model.enable=true", "custom_reward_function.path=null"]
    ways = {
        "pipeline": [other],
        "instances": [other, "actor_rollout_ref.rollout.inference=instances"],
        "same": [same],
    }
    runs = {name: overrides(actor, tmp_path / "run", *base, *more) for name, more in ways.items()}
    found, others = ranks.run("tests.fusedrl.trainers.retokenizing_jobs:gathered", world=2, runs=runs)
    assert found == others
    for name, told in found.items():
        assert len({ended for _, ended in told["rows"]}) == 2
        assert told["scores"] == pytest.approx(by_hand(tmp_path, told["rows"], as_text=name != "same"), abs=1e-5)
        assert len(set(told["scores"])) > 4
        assert told["retokenized"] == (name != "same")
        assert told["cut"] == (None if name == "same" else 0.0)
