"""Responses to prompts: `torchrun --nproc-per-node 4 -m fusedrl.generate model.path=FOLDER data.files=[prompts.jsonl]`.

On one rank `python -m fusedrl.generate ...` does. Keys: docs/configuration.md, or --help. The result is a jsonl file,
runs/NAME/responses.jsonl; the same command goes on where an interrupted one stopped.
"""

from time import perf_counter

from fusedrl.config.cli import start
from fusedrl.config.schema import GenerateConfig
from fusedrl.telemetry.libraries import hush
from fusedrl.trainers.entry import entered, in_world, is_first_rank, overlap_tensor_parallel, say


def problems(config: GenerateConfig, world: int) -> list[str]:
    """What is wrong with a configuration on `world` ranks; no process group is needed."""
    overlap_tensor_parallel(largest_tp=config.rollout.tensor_model_parallel_size)
    from fusedrl.trainers.preflight_generation import generate_problems

    return generate_problems(config, world=world, speaks=is_first_rank())


def run(config: GenerateConfig) -> None:
    """Respond on the ranks of the joined world. Raises ConfigError where the run cannot be set up."""
    from fusedrl.trainers.counting import counting
    from fusedrl.trainers.setup_generation import generation_run

    with entered(generation_run(config)) as responding:
        if responding is None:
            say(f"all responses are in {config.output.path} already; trainer.resume_mode=disable starts afresh")
            return
        if responding.too_long:
            say(f"{responding.too_long} prompts were too long (data.truncation={config.data.truncation})")
        if responding.done:
            say(f"{len(responding.done)} of {len(responding.rows)} rows are there; the others follow")
        began = perf_counter()
        with counting("row", total=len(responding.rows), first=len(responding.done)) as told:
            tokens = responding.run(told=told)
        say(f"{tokens} tokens in {perf_counter() - began:.1f} s; responses in {config.output.path}")


def main() -> None:
    hush()
    config = start("generate", check=problems)
    in_world("generate", lambda: run(config), timeout_s=config.trainer.timeout_s)


if __name__ == "__main__":
    main()
