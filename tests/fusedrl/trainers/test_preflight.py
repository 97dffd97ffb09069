import string
from pathlib import Path
from typing import Any

import pytest

from fusedrl.config.derive import derive_ppo
from fusedrl.config.load import load
from fusedrl.data.characters import write_character_tokenizer
from fusedrl.models.architecture import Architecture
from fusedrl.models.experts import Experts
from fusedrl.models.hf_export import write_random_hf
from fusedrl.pipeline.plan import Planned, plan_pass
from fusedrl.trainers.preflight import ppo_problems, rm_problems, sft_problems


def model(folder: Path, *, head: str = "lm", alphabet: str = "0123456789+-=", **changes: Any) -> str:
    folder.mkdir(parents=True)
    sizes = {"family": "llama", "vocab_size": write_character_tokenizer(folder, alphabet), **changes}
    arch = Architecture(
        hidden_size=16,
        num_layers=4,
        num_heads=2,
        num_kv_heads=2,
        head_dim=8,
        ffn_hidden_size=16,
        max_position=64,
        eos_token_ids=(2,),
        **sizes,
    )
    return str(write_random_hf(arch, folder, seed=0, head=head))


def problems(
    tmp_path: Path, *overrides: str, warm_start: bool = False, world: int = 4, shipped_function: bool = False
) -> list[str]:
    """Of the arithmetic experiment, its reward function quick to load unless the shipped one is asked for."""
    folder = str(tmp_path / "none/huggingface") if warm_start else model(tmp_path / "actor")
    fixed = [f"actor_rollout_ref.model.path={folder}", f"trainer.default_local_dir={tmp_path / 'run'}"]
    if not shipped_function:
        function = tmp_path / "function.py"
        function.parent.mkdir(parents=True, exist_ok=True)
        function.write_text("def compute_score(data_source, solution_str, ground_truth, extra_info):\n    return 0.0\n")
        fixed += [f"custom_reward_function.path={function}", "custom_reward_function.name=compute_score"]
    config = load("ppo", ["experiment=arithmetic", "data.task.train_size=200", *fixed, *overrides])
    sft = load("sft", ["experiment=arithmetic"]) if warm_start else None
    return ppo_problems(config, world=world, warm_start=sft, speaks=True)


@pytest.mark.parametrize("warm_start", [True, False])
def test_the_shipped_experiment_has_no_problem_and_leaves_nothing(tmp_path: Path, warm_start: bool) -> None:
    assert problems(tmp_path, warm_start=warm_start, shipped_function=True) == []
    assert not (tmp_path / "run").exists()


def test_ppo_on_a_reward_model_s_score_alone_has_no_problem(tmp_path: Path) -> None:
    actor, reward = model(tmp_path / "actor"), model(tmp_path / "reward", head="value")
    paths = {"actor_rollout_ref": actor, "critic": reward, "reward_model": reward}
    words = [f"{key}.model.path={path}" for key, path in paths.items()]
    config = load("ppo", ["experiment=rlhf_pairs", *words, f"trainer.default_local_dir={tmp_path / 'run'}"])
    assert ppo_problems(config, world=2, warm_start=None, speaks=True) == []


def test_a_generated_task_as_a_chat_needs_a_chat_template(tmp_path: Path) -> None:
    actor = model(tmp_path / "actor", alphabet=string.printable)
    words = [f"actor_rollout_ref.model.path={actor}", "data.max_prompt_length=50", "data.task.val_size=5"]
    config = load("ppo", ["experiment=smollm2_gsm", *words, f"trainer.default_local_dir={tmp_path / 'run'}"])
    (line,) = ppo_problems(config, world=2, warm_start=None, speaks=True)
    assert "the prompt is a chat" in line
    template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    (tmp_path / "actor" / "chat_template.jinja").write_text(template)
    assert ppo_problems(config, world=2, warm_start=None, speaks=True) == []


@pytest.mark.parametrize(
    ("override", "start"),
    [
        ("custom_reward_function.name=nonesuch", "custom_reward_function.name=nonesuch"),
        (
            "critic.megatron.transformer_impl=transformer_engine",
            "critic.megatron.transformer_impl=transformer_engine: Transformer Engine absent; install it",
        ),
        (
            "critic.megatron.attention_backend=unfused",
            "actor_rollout_ref.actor.megatron.attention_backend=auto, critic.megatron.attention_backend=unfused: ",
        ),
        ("schedule.memory_cap=0.0001", "schedule.method=fused, schedule.memory_cap=0.0001: memory_cap"),
        ("schedule.method=file:README.md", "schedule.method=file:README.md"),
        ("schedule.method=interleaved", "schedule.method=interleaved needs schedule.placement=interleaved, not line"),
        (
            "schedule.actor.backward_weight=9 schedule.costs=constant schedule.method=zero_bubble",
            "schedule.method=zero_",
        ),
        ("data.task.prompt='{nonesuch}'", "data.task.prompt='{nonesuch}'"),
        ("data.task.config={min_terms: 9, max_terms: 3}", "data.task.config="),
        ("data.task.keep_spaces=true", "chain_sum["),  # the tokenizer has no space
        ("trainer.default_local_dir=README.md", "trainer.default_local_dir="),
    ],
)
def test_each_mistake_is_one_line_that_begins_with_its_key(tmp_path: Path, override: str, start: str) -> None:
    (line,) = problems(tmp_path, *([override] if "'" in override or "{" in override else override.split()))
    assert line.startswith(start)
    assert "\n" not in line


@pytest.mark.parametrize("placement", ["line", "v", "interleaved"])
@pytest.mark.parametrize("method", ["fused_split", "zero_bubble", "interleaved"])
def test_methods_and_placements_can_be_planned(tmp_path: Path, placement: str, method: str) -> None:
    found = problems(tmp_path, f"schedule.placement={placement}", f"schedule.method={method}")
    assert bool(found) == (method == "interleaved" != placement)


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (2, 2)])
def test_a_critic_of_its_own_layout_is_planned(tmp_path: Path, tp: int, pp: int) -> None:
    sizes = [f"critic.megatron.{name}_model_parallel_size={size}" for name, size in (("tensor", tp), ("pipeline", pp))]
    assert problems(tmp_path / "a", *sizes) == []
    (line,) = problems(tmp_path / "b", *sizes, "schedule.memory_cap=0.01")
    assert line.startswith("schedule.method=fused, schedule.memory_cap=0.01: memory_cap: 0.01 is below")


@pytest.mark.parametrize("method", ["fused", "interleaved"])
def test_micro_batches_by_tokens_are_planned_as_those_of_the_longest_samples(tmp_path: Path, method: str) -> None:
    asked = ["actor_rollout_ref.actor.use_dynamic_bsz=true", f"schedule.method={method}"]
    cap = "schedule.memory_cap=2"  # MiB: room for a few samples, not for a whole share
    place = [f"schedule.placement={'line' if method == 'fused' else method}"]
    small, large = (f"actor_rollout_ref.actor.ppo_max_token_len_per_gpu={tokens}" for tokens in (48, 4096))
    assert problems(tmp_path / "a", *asked, *place, cap, small) == []
    (line,) = problems(tmp_path / "b", *asked, *place, cap, large)
    assert line.startswith(f"schedule.method={method}, schedule.memory_cap=2.0: memory_cap")


def test_a_cap_has_room_for_many_short_samples_as_for_few_long_ones(tmp_path: Path) -> None:
    """39 tokens are one sample of 20, two of 19 or three of 13."""
    asked = ["actor_rollout_ref.actor.use_dynamic_bsz=true", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=39"]
    lengths = ["data.max_prompt_length=16", "data.max_response_length=4", "parallel=pp2"]
    assert problems(tmp_path / "a", *asked, *lengths, "schedule.memory_cap=0.13", world=2) == []
    (line,) = problems(tmp_path / "b", *asked, *lengths, "schedule.memory_cap=0.11", world=2)
    assert "memory_cap: 0.11 is below" in line


def test_given_answers_beside_the_samples_are_planned_too(tmp_path: Path) -> None:
    rows = tmp_path / "answers.jsonl"
    rows.write_text('{"prompt": "1+1=", "answer": "2"}\n')
    key, cap = "actor_rollout_ref.actor.ptx", "schedule.memory_cap=3"
    beside = [f"{key}.coeff=0.1", f"{key}.files=[{rows}]", f"{key}.max_length=64"]
    assert problems(tmp_path / "alone", cap, world=2) == []
    (line,) = problems(tmp_path / "beside", cap, *beside, world=2)
    assert "memory_cap" in line


def test_orders_from_files_are_checked_against_the_placement(tmp_path: Path) -> None:
    """The plan that is checked is the one that will run: two stages a rank where they are placed so."""
    config = load("ppo", ["experiment=arithmetic", "parallel=pp2", "schedule.placement=v"])
    layout = derive_ppo(config, world=2).models
    shapes = {name: ((1, 1),) * layout[name].micro_batches for name in ("actor", "critic")}
    placed = [Planned(name, shapes[name], pp=2, reverse=name == "critic", shape="v") for name in shapes]
    program = plan_pass(placed, method="fused_split")
    (tmp_path / "order.txt").write_text(program.order.to_text(program.problem))
    asked = ("parallel=pp2", f"schedule.method=file:{tmp_path / 'order.txt'}")
    assert problems(tmp_path / "v", *asked, "schedule.placement=v", world=2) == []
    assert problems(tmp_path / "line", *asked, world=2) != []


def test_recomputation_fits_under_a_cap_that_kept_activations_break(tmp_path: Path) -> None:
    cap = ["schedule.memory_cap=1.5", "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2"]
    (found,) = problems(tmp_path / "kept", *cap)
    assert found.startswith("schedule.method=fused, schedule.memory_cap=1.5: ")
    full = "actor_rollout_ref.actor.megatron.recompute_granularity=full"
    assert problems(tmp_path / "again", *cap, full) == []


def test_layouts_and_engines_that_experts_do_not_have_are_named(tmp_path: Path) -> None:
    actor = model(tmp_path / "actor", family="qwen3_moe", experts=Experts(count=4, per_token=2, ffn_hidden_size=8))
    layouts = [f"{key}.tensor_model_parallel_size=2" for key in ("actor_rollout_ref.actor.megatron", "critic.megatron")]
    words = [f"actor_rollout_ref.model.path={actor}", f"critic.model.path={model(tmp_path / 'critic')}", *layouts]

    def lines(*more: str) -> list[str]:
        config = load("ppo", ["experiment=arithmetic", *words, *more])
        return ppo_problems(config, world=4, warm_start=None, speaks=False)

    def found(*more: str) -> list[str]:
        return [line.split(" ")[0] for line in lines(*more)]

    shared = "actor_rollout_ref.actor.megatron.sequence_parallel"
    assert found("critic.megatron.expert_model_parallel_size=2") == [
        f"{shared}=false",
        "critic.megatron.expert_model_parallel_size=2:",
    ]
    assert found(f"{shared}=true") == []
    told = "actor_rollout_ref.rollout.name=vllm: models with experts are generated by megatron alone; use that"
    assert told in lines(f"{shared}=true", "actor_rollout_ref.rollout.name=vllm")


def test_a_pending_warm_start_is_checked_by_the_model_it_will_make(tmp_path: Path) -> None:
    lines = problems(tmp_path, "data.max_response_length=100", warm_start=True)
    assert all("exceed the 64 positions" in line for line in lines)
    assert len(lines) == 2  # actor and critic; no reference is used
    deep = "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=8"
    lines = problems(tmp_path, deep, warm_start=True, world=8)
    assert any("does not divide the model's 4 layers" in line for line in lines)


def test_a_reward_model_needs_its_head_and_the_actors_vocabulary_or_a_tokenizer(tmp_path: Path) -> None:
    switch = "reward_model.enable=true"
    plain, other = model(tmp_path / "plain"), model(tmp_path / "other", head="value", vocab_size=99)
    trained = model(tmp_path / "trained", head="value")
    (line,) = problems(tmp_path / "a", switch, f"reward_model.model.path={plain}")
    assert "no score.weight" in line
    for path in Path(other).glob("tokenizer*.json"):
        path.unlink()
    (line,) = problems(tmp_path / "b", switch, f"reward_model.model.path={other}")
    assert line.startswith("reward_model.model.path: its vocabulary has 99 tokens")
    assert problems(tmp_path / "c", switch, f"reward_model.model.path={trained}") == []
    text = model(tmp_path / "text", head="value", alphabet="=-+9876543210 ")
    assert problems(tmp_path / "d", switch, f"reward_model.model.path={text}") == []
    blind = model(tmp_path / "blind", head="value", alphabet="0123456789")
    (line,) = problems(tmp_path / "e", switch, f"reward_model.model.path={blind}")
    assert line.startswith(f"reward_model.model.path={blind} reads prompts as text: text: ")
    assert "holds a character" in line
    named = f"reward_model.model.input_tokenizer={text}"
    (line,) = problems(tmp_path / "f", switch, f"reward_model.model.path={text}", named)
    assert line.startswith(f"{named}: ")


def test_sft_s_folder_and_rows_are_looked_at(tmp_path: Path) -> None:
    folder = Path(model(tmp_path / "start"))
    overrides = ["experiment=arithmetic", "model.new.alphabet=null", f"model.path={folder}"]
    config = load("sft", [*overrides, "data.task.train_size=200", f"trainer.default_local_dir={tmp_path}"])
    assert sft_problems(config, world=4, speaks=True) == []
    (folder / "model.safetensors").unlink()
    (line,) = sft_problems(config, world=4, speaks=True)
    assert "safetensors" in line


def rm_lines(tmp_path: Path, *overrides: str, pairs: str = "", head: str = "lm") -> list[str]:
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "pairs.jsonl").write_text(pairs)
    folder = model(tmp_path / "start", head=head)
    fixed = [f"model.path={folder}", "data.task.train_size=200", f"trainer.default_local_dir={tmp_path / 'run'}"]
    given = ["data.task.name=null", f"data.train_files=[{tmp_path / 'pairs.jsonl'}]", "trainer.test_freq=-1"]
    config = load("reward_model", ["experiment=arithmetic", *fixed, *(given if pairs else []), *overrides])
    found = rm_problems(config, world=4, speaks=True)
    assert not (tmp_path / "run").exists()
    return found


@pytest.mark.parametrize("head", ["lm", "value"])
def test_a_reward_model_may_start_from_a_language_model_or_go_on(tmp_path: Path, head: str) -> None:
    assert rm_lines(tmp_path, head=head) == []
    assert rm_lines(tmp_path / "files", pairs='{"prompt": "1+1=", "chosen": "2", "rejected": "3"}') == []


@pytest.mark.parametrize(
    ("pairs", "overrides", "told"),
    [
        ('{"prompt": "1+1=", "chosen": "2"}', (), "pairs.jsonl:1: rejected is missing; the row has prompt, chosen"),
        ('\n{"prompt": "1+1=", "chosen": "2", "rejected": "x"}', (), "pairs.jsonl:2: 'x' holds a character"),
        (
            '{"prompt": "1+1=", "chosen": "2", "rejected": "3"}',
            ("data.max_length=5",),
            "pairs.jsonl:1: 6 tokens, data.max",
        ),
        ('{"prompt": "1+1=", "chosen": "2", "rejected": "2"}', (), "no pair is left of 1: 0 were longer than"),
        (
            '{"prompt": [{"role": "user", "content": "1"}], "chosen": "2", "rejected": "3"}',
            (),
            "the prompt is a chat, but",
        ),
        (
            '{"prompt": "1+1=", "chosen": "2", "rejected": "3"}',
            ("data.train_files=[gone]",),
            "data.train_files: gone: there",
        ),
        ("", ("data.task.config={min_terms: 9, max_terms: 3}",), "data.task.config="),
        ("", ("model.path=gone",), "gone"),
        (
            "",
            ("megatron.tensor_model_parallel_size=4", "megatron.pipeline_model_parallel_size=1"),
            "megatron.tensor_model",
        ),
        ("", ("megatron.transformer_impl=transformer_engine",), "megatron.transformer_impl=transformer_engine: "),
        ("", ("trainer.default_local_dir=README.md",), "trainer.default_local_dir="),
    ],
)
def test_each_mistake_of_a_reward_model_s_training_is_one_line(
    tmp_path: Path, pairs: str, overrides: tuple[str, ...], told: str
) -> None:
    try:
        (line,) = rm_lines(tmp_path, *overrides, pairs=pairs)
    except ValueError as error:  # of a model's folder: the entry point tells it as a problem
        line = str(error)
    assert told in line
    assert "\n" not in line


def test_a_new_reward_model_s_rows_are_read_without_a_tokenizer(tmp_path: Path) -> None:
    assert rm_lines(tmp_path, "model={path: null, new: {alphabet: '0123456789+-='}}") == []
    (line,) = rm_lines(tmp_path / "b", "model={path: null, new: {alphabet: '01'}}", pairs='{"prompt": "1"}')
    assert "pairs.jsonl:1: chosen is missing; the row has prompt" in line
