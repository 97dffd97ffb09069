"""Evaluation of a model: `torchrun --nproc-per-node 4 -m fusedrl.evaluate model.path=FOLDER data=chain_sum key=value`.

On one rank `python -m fusedrl.evaluate ...` does. Keys: docs/configuration.md, or --help. The results are
runs/NAME/evaluation.json, samples.jsonl and samples.html.
"""

from fusedrl.config.cli import start
from fusedrl.config.numbers import counted
from fusedrl.config.schema import EvaluateConfig
from fusedrl.telemetry.libraries import hush
from fusedrl.trainers.entry import entered, in_world, is_first_rank, overlap_tensor_parallel, say


def problems(config: EvaluateConfig, world: int) -> list[str]:
    """What is wrong with a configuration on `world` ranks; no process group is needed."""
    overlap_tensor_parallel(largest_tp=config.rollout.tensor_model_parallel_size)
    from fusedrl.trainers.preflight_generation import evaluate_problems

    return evaluate_problems(config, world=world, speaks=is_first_rank())


def run(config: EvaluateConfig) -> None:
    """Evaluate on the ranks of the joined world. Raises ConfigError where the run cannot be set up."""
    from fusedrl.trainers.counting import counting
    from fusedrl.trainers.evaluation import figure_lines
    from fusedrl.trainers.setup_generation import evaluation_run

    with entered(evaluation_run(config)) as evaluation:
        say(f"{counted(len(evaluation.rows), 'prompt')} x {counted(config.rollout.n, 'response')}")
        if evaluation.too_long:
            say(f"{evaluation.too_long} prompts were too long (data.truncation={config.data.truncation})")
        with counting("response", total=len(evaluation.rows) * config.rollout.n, by_response=True) as told:
            found = evaluation.run(told=told)
        for line in [*figure_lines(found, confidence=config.evaluation.confidence), f"results in {evaluation.folder}"]:
            say(line)


def main() -> None:
    hush()
    config = start("evaluate", check=problems)
    in_world("evaluate", lambda: run(config), timeout_s=config.trainer.timeout_s)


if __name__ == "__main__":
    main()
