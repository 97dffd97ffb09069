"""A Hugging Face folder in our engine beside Hugging Face's own model: logits, greedy text.

    python -m fusedrl.bench.beside_hf FOLDER "What is 3 + 4?" "Who wrote Hamlet?" [--new 24] [--plain] [--json]

Prompts are a user's messages through the folder's chat template; --plain: text as it stands. Both models run in float32
on one rank. The logits compared are those of every token of each prompt with Hugging Face's greedy response; texts
are equal where the engine, with its key-value cache, draws the same tokens.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.data.rows import Row
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.models.architecture import Architecture
from fusedrl.models.build import build_model
from fusedrl.models.hf_import import load_hf
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.megatron_stage import megatron_model
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import SamplingParams

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Compared:
    """One prompt: both greedy responses, and the largest difference of two logits."""

    prompt: str
    engine: str
    hugging_face: str
    same_tokens: bool
    largest_difference: float


def main() -> None:
    parser = argparse.ArgumentParser(description="A Hugging Face folder in our engine beside Hugging Face's own model")
    parser.add_argument("folder")
    parser.add_argument("prompts", nargs="+")
    parser.add_argument("--new", type=int, default=24, help="response tokens")
    parser.add_argument("--plain", action="store_true", help="no chat template")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        found = compare(options.folder, options.prompts, new=options.new, chat=not options.plain)
    finally:
        dist.destroy_process_group()
    if options.json:
        print(json.dumps([asdict(each) for each in found]))
        return
    for each in found:
        print(f"{each.prompt!r}\n  {each.engine!r}\n  tokens as Hugging Face's: {'yes' if each.same_tokens else 'no'}")
        print(f"  largest difference of two logits: {each.largest_difference:.2e}")


def compare(folder: str, prompts: Sequence[str], *, new: int, chat: bool) -> list[Compared]:
    """Both models over the prompts, in a world of one rank."""
    from transformers import AutoModelForCausalLM

    tokenizer = Tokenizer(folder)
    rows = [tokenizer.encode_prompt(_row(text, chat=chat)) for text in prompts]
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ours = build_model(Architecture.from_folder(folder), build_groups(Layout())).eval()
    load_hf(ours, folder)
    drawn = _greedy(ours, rows, new=new, stops=tokenizer.stop_token_ids)
    return [
        _compared(text, row, tokens, ours, theirs, tokenizer, new=new)
        for text, row, tokens in zip(prompts, rows, drawn, strict=True)
    ]


def _row(text: str, *, chat: bool) -> Row:
    return Row(prompt=[{"role": "user", "content": text}] if chat else text, place=repr(text))


def _greedy(model: Any, rows: Sequence[Tokens], *, new: int, stops: frozenset[int]) -> list[Tokens]:
    engine = MegatronEngine(model, max_length=max(map(len, rows)) + new, max_rows=len(rows))
    params = SamplingParams(temperature=0.0, max_tokens=new, stop_token_ids=stops)
    requests = [Request(sample_id=i, prompt=row, params=params) for i, row in enumerate(rows)]
    return [done.tokens for done in engine.generate(requests)]


@torch.no_grad()
def _compared(
    text: str, row: Tokens, drawn: Tokens, ours: Any, theirs: Any, tokenizer: Tokenizer, *, new: int
) -> Compared:
    prompt_1T = torch.tensor([row])
    whole_1T = theirs.generate(
        prompt_1T,
        attention_mask=torch.ones_like(prompt_1T),
        do_sample=False,
        max_new_tokens=new,
        eos_token_id=sorted(tokenizer.stop_token_ids),
        pad_token_id=tokenizer.pad_token_id,
    )
    expected = tuple(whole_1T[0, len(row) :].tolist())
    theirs_TV = theirs(whole_1T).logits[0]
    difference = (_logits(ours, whole_1T) - theirs_TV).abs().max()
    return Compared(text, tokenizer.decode(drawn), tokenizer.decode(expected), drawn == expected, float(difference))


def _logits(model: Any, tokens_1T: torch.Tensor) -> torch.Tensor:
    """[T, V] without the padded vocabulary's columns."""
    stage = megatron_model("model", model, layout=Layout(), rank=0).stages[0]
    output = stage(MicroBatch(tokens_1T), None)
    return output[0, :, : model.arch.vocab_size]


if __name__ == "__main__":
    main()
