"""Samples in the tokens of a reward model that has another tokenizer than the actor.

    actor's tokens -> text, as the reward function sees it -> reward model's tokens, as in its training (data/pairs.py)

A chat goes through the reward model's own template, once, and the response follows as the assistant's turn; the end
token stands behind a response that came to its end. Rows have widths of their own. One that is too long loses its
beginning, which is the prompt's, and is counted: the score is read at the end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusedrl.config.budgets import ppo_budgets
from fusedrl.config.schema import PPOConfig
from fusedrl.data.rows import Row
from fusedrl.data.tokenizer import Tokenizer, has_tokenizer
from fusedrl.models.architecture import Architecture
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.samples import Samples, gather_samples

KEY = "reward_model.model.path"
INPUT_KEY = "reward_model.model.input_tokenizer"
CUT = "reward/retokenized_cut"


@dataclass(eq=False)
class Retokenizer:
    """tokenizer: the reward model's; decode: the actor's tokens to text; limit: tokens of a row; cut: rows that lost
    their beginning so far."""

    tokenizer: Tokenizer
    decode: Callable[[Sequence[int]], str]
    limit: int
    cut: int = 0

    def prompt(self, row: PromptRow) -> tuple[int, ...]:
        """Raises ValueError where the tokenizer has no chat template for a chat, or no token for a character."""
        prompt = self.decode(row.tokens) if isinstance(row.prompt, str) else row.prompt
        return self.tokenizer.encode_prompt(Row(prompt))

    def samples(self, rows: Sequence[PromptRow], completions: Sequence[Completion]) -> Samples:
        """Completions of each row are neighbours, in the rows' order."""
        each = len(completions) // max(len(rows), 1)
        prompts = [self.prompt(row) for row in rows]
        made = [self._completion(prompts[index // each], given) for index, given in enumerate(completions)]
        width = max(len(completion.tokens) for completion in made)
        return gather_samples(made, max_response_length=width, pad_id=self.tokenizer.pad_token_id)

    def take_cut(self) -> int:
        """Rows cut since the last call."""
        found, self.cut = self.cut, 0
        return found

    def _completion(self, prompt: tuple[int, ...], given: Completion) -> Completion:
        ended = given.finish_reason == "stop"
        tokens = self.tokenizer.encode_generated(self.decode(given.tokens), ended=ended)
        tokens = tokens if prompt or tokens else (self.tokenizer.end_token_id,)  # a row has a token to read at
        over = max(0, len(prompt) + len(tokens) - self.limit)
        self.cut += over > 0
        return Completion(
            sample_id=given.sample_id,
            prompt=prompt[over:],
            tokens=(tokens := tokens[max(0, over - len(prompt)) :]),
            logprobs=(0.0,) * len(tokens),
            finish_reason=given.finish_reason,
        )


def make_retokenizer(config: PPOConfig, actor: Tokenizer) -> Retokenizer | None:
    """None where the reward model, if there is one, reads the actor's tokens. Raises ValueError where it can read
    neither these nor text."""
    reward = config.reward_model
    if not reward.enable or reward.model.path is None:
        return None
    _check_input(config)
    model = Architecture.from_folder(reward.model.path)
    if not has_tokenizer(reward.model.path):
        if reward.model.input_tokenizer is not None:
            raise ValueError(f"{INPUT_KEY}: {KEY}={reward.model.path} holds no tokenizer to encode text with")
        return None
    tokenizer, policy = Tokenizer(reward.model.path), Architecture.from_folder(config.actor_rollout_ref.model.path)
    reads_ids = tokenizer.reads(actor) and policy.vocab_size <= model.vocab_size
    if reads_ids and reward.model.input_tokenizer is None:
        return None
    if tokenizer.vocab_size > model.vocab_size:
        told = f"its tokenizer has {tokenizer.vocab_size} tokens, the model {model.vocab_size}"
        raise ValueError(f"{KEY}={reward.model.path}: {told}; give the tokenizer that it was trained with")
    return Retokenizer(tokenizer, actor.decode, limit=_limit(config, model))


def _check_input(config: PPOConfig) -> None:
    asked, actor = config.reward_model.model.input_tokenizer, config.actor_rollout_ref.model.path
    if asked not in (None, actor):
        raise ValueError(f"{INPUT_KEY}={asked}: samples are in the actor's tokens; set it to {actor}, or to null")


def _limit(config: PPOConfig, model: Architecture) -> int:
    """The model's positions, and with a budget of tokens a row that fits into it alone."""
    budget = ppo_budgets(config).get("reward")
    if budget is None:
        return model.max_position
    return min(model.max_position, budget.tokens // budget.pads_to * budget.pads_to)


def retokenizing_line(config: PPOConfig, retokenizer: Retokenizer) -> str:
    """For the start of a run."""
    path = config.reward_model.model.path
    told = f"it reads samples as text, tokenised again, up to {retokenizer.limit} tokens each"
    return f"{KEY}={path}: not the actor's tokens; {told}"
