"""PPO: the loop reads as the algorithm, one line a phase.

    prompts -> generation -> scores -> log-probabilities, values -> advantages -> fused update of actor and critic

Estimators without a critic (GRPO and its kin) run the same loop; the actor is then alone in its passes.

With rollout.inference=instances the first three are one flow of samples (streaming.py) instead of three stages.

Every rank runs this loop and holds the same batch; rank 0 alone scores responses and writes files.
Shapes: B samples of a step, R response tokens.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from torch import Tensor

from fusedrl.config.budgets import Budget, ppo_budgets
from fusedrl.config.schema import PPOConfig, RolloutConfig, ValidationSamplingConfig
from fusedrl.parallel.agreed import AgreedError
from fusedrl.parallel.team import leads
from fusedrl.pipeline.executor import Executor
from fusedrl.pipeline.spans import gather_spans, within
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.team import RunnerTeam
from fusedrl.rl.kl import AdaptiveController, FixedController
from fusedrl.rollout.requests import Completion
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.telemetry.logger import MetricsLogger
from fusedrl.telemetry.timers import Timers
from fusedrl.trainers import forward, losses
from fusedrl.trainers.checkpointing import Checkpoints
from fusedrl.trainers.estimate import BASELINE, needs_baseline
from fusedrl.trainers.experience import Experience, make_experience
from fusedrl.trainers.figures import values_of
from fusedrl.trainers.forward import Inference, infer
from fusedrl.trainers.generation import Generator
from fusedrl.trainers.judging import respond, temperature_of
from fusedrl.trainers.offloading import Offloading
from fusedrl.trainers.outputs import Outputs
from fusedrl.trainers.partial import PartialRollout, corrected
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.prompting import PromptRow, PromptSource
from fusedrl.trainers.ptx import Ptx
from fusedrl.trainers.reading import Reading
from fusedrl.trainers.report import step_metrics
from fusedrl.trainers.retokenizing import CUT, Retokenizer
from fusedrl.trainers.roles import Role, TrainedRole
from fusedrl.trainers.samples import Samples, gather_samples
from fusedrl.trainers.scoring import Scores, require_answers, reward_samples, score
from fusedrl.trainers.streaming import Gathered, SampleStream
from fusedrl.trainers.update import Learner, Update, mini_batches, shapes_ahead, update

CARRIED = "carried"  # name of unfinished samples in a saved state
VALIDATION_STEP = 0  # random numbers of validation never meet those of a training step, which count from 1


@dataclass(eq=False)
class PPO:
    """A PPO run on this rank. Critic, reference and reward are None where the configuration does not use them.

    stream: with rollout.inference=instances; it has the frozen models, then. partial: with rollout.partial_rollout.
    retokenizer: where the reward model reads tokens of its own. ptx: where the actor learns given answers beside.
    """

    config: PPOConfig
    prompts: PromptSource
    actor: TrainedRole
    critic: TrainedRole | None
    reference: Role | None
    reward: Role | None
    generator: Generator
    executor: Executor
    planner: Planner
    runner: RewardRunner | RunnerTeam | None  # on rank 0
    stream: SampleStream | None
    retokenizer: Retokenizer | None
    partial: PartialRollout | None
    ptx: Ptx | None
    kl: FixedController | AdaptiveController
    logger: MetricsLogger
    outputs: Outputs
    checkpoints: Checkpoints
    memory: Offloading
    reading: Reading = field(default_factory=Reading)
    timers: Timers = field(default_factory=Timers)

    def run(self, *, steps: int) -> list[dict[str, float]]:
        """All steps that are left; each one's metrics, the first being the validation before training (empty without
        one, and where a run goes on from a saved state)."""
        trainer, first = self.config.trainer, self.checkpoints.first
        begins = first == 1 and trainer.val_before_train and self.prompts.validation
        history = [self.validate(0) if begins else {}]
        if history[0]:
            self.logger.log(history[0], step=0)
        for step in range(first, steps + 1):
            try:
                metrics = self.step(step)
            except AgreedError:  # all ranks are here alike: the state that is under way shall count
                self.checkpoints.finish()
                raise
            if self.prompts.validation and (step == steps or _due(step, every=trainer.test_freq)):
                with self.timers("testing"):
                    metrics |= self.validate(step)
                metrics |= self.timers.collect()
            self.logger.log(metrics, step=step)
            history.append(metrics)
            with self.timers("save_checkpoint"):
                self.save(step, last=step == steps)
        self.checkpoints.finish()
        return history

    def save(self, step: int, *, last: bool) -> None:
        """The state, and Hugging Face folders, where they are due."""
        values: dict[str, Any] = {"kl_coef": self.kl.coef}
        carried, tensors = ([], None) if self.partial is None else self.partial.state()
        if self.partial is not None:
            values[CARRIED] = carried
        due = self.checkpoints.step_done(step, last=last, values=values, tensors=tensors)
        if due and (last or self.config.trainer.export_hf):
            self.outputs.save(step, [self.actor, *([] if self.critic is None else [self.critic])])

    def restore(self) -> None:
        """Go on from the saved state that the run starts from, if there is one."""
        values = self.checkpoints.restore()
        if values is not None and isinstance(self.kl, AdaptiveController):
            self.kl = replace(self.kl, coef=values["kl_coef"])
        if values is not None and values.get(CARRIED):
            self._restore_carried(values[CARRIED])

    def _restore_carried(self, carried: Sequence[Any]) -> None:
        if self.partial is None:
            raise ValueError(
                f"the saved state carries unfinished samples of {len(carried)} prompts: set "
                "actor_rollout_ref.rollout.partial_rollout=true to go on with them"
            )
        self.partial.restore(carried, self.checkpoints.saved_tensor)

    def step(self, step: int) -> dict[str, float]:
        """One step of PPO; its metrics, the same on every rank."""
        with self.timers("step"):
            with self.timers("hand_over"):
                self.generator.load(self.actor)
                if self.stream is not None:
                    self.stream.load(self.critic)
            self.make_room()
            gathered = self.by_stages(step) if self.stream is None else self.streamed(self.stream, self.rows(), step)
            samples, scores, inferred = gathered.samples, gathered.scores, gathered.inferred
            require_answers(scores, step=step, path=self.config.custom_reward_function.path)
            with self.timers("adv"):
                experience = self._experience_or_end(samples, scores.score_B, inferred, step=step)
            self.take_back()
            with self.timers("update_fused"):
                updates = self.update(experience, step=step)
        if isfinite(experience.kl):  # else no loss of this step is finite, and its updates are skipped (skipping.py)
            self.kl = self.kl.update(experience.kl, samples=samples.size)
        self.outputs.save_order(updates[0].program)
        timing_s = self.timers.collect() | gathered.timing_s
        if step in self.config.trainer.profile_steps:
            self.save_trace(step, updates, gathered)
        found = step_metrics(
            experience, inferred, updates, scores=scores, timing_s=timing_s, config=self.config, kl=self.kl
        )
        return found | gathered.metrics | self.memory.metrics()

    def make_room(self) -> None:
        """Before generation: what of the trainer's memory may wait in CPU memory."""
        if self.memory:
            with self.timers("offload"):
                self.memory.offload()

    def take_back(self, *, to_read: bool = False) -> None:
        """Before updates; to_read: before forward passes, which need parameters alone."""
        if self.memory:
            with self.timers("onload"):
                self.memory.for_reading() if to_read else self.memory.for_training()

    def rows(self) -> list[PromptRow]:
        """The next prompts."""
        return self.prompts.next(self.config.data.train_batch_size)

    def by_stages(self, step: int) -> Gathered:
        """Generation, then rewards, then inference in one fused pass."""
        with self.timers("gen"):
            rows, completions, metrics = self.finished(step)
            baseline = self.greedy(rows, step=step) if needs_baseline(self.config.algorithm) else []
        self.take_back(to_read=True)
        samples = self.samples_of(completions)
        with self.timers("plan"):
            self.plan(samples, step=step)
        with self.timers("reward"):
            scores = self.score(rows, completions)
        with self.timers("infer_fused"):
            inferred = self.infer(samples, of_reward=self.of_reward(rows, completions))
        if self.retokenizer is not None:
            metrics = metrics | {CUT: float(self.retokenizer.take_cut())}
        if baseline:
            with self.timers("baseline"):
                inferred |= self.baseline(rows, baseline)
        return Gathered(samples, scores, inferred, metrics=metrics)

    def streamed(self, stream: SampleStream, rows: Sequence[PromptRow], step: int) -> Gathered:
        """The same as one flow of samples on the generation engines."""
        rollout = self.config.actor_rollout_ref.rollout
        gathered = stream.run(rows, n=rollout.n, params=self._params(rollout, step))
        with self.timers("plan"):
            self.plan(gathered.samples, step=step)
        if needs_baseline(self.config.algorithm):
            with self.timers("baseline"):
                score_P = stream.baseline(rows, params=self._greedy_params(step))
                gathered.inferred[BASELINE] = score_P.repeat_interleave(rollout.n)[:, None]
        return gathered

    def finished(self, step: int) -> tuple[list[PromptRow], list[Completion], dict[str, float]]:
        """Prompts, n completions of each, neighbours; metrics of those that are carried on."""
        if self.partial is not None:
            return self.partial.run(step, params=self._params(self.config.actor_rollout_ref.rollout, step))
        rows = self.rows()
        return rows, self.generate(rows, step=step), {}

    def generate(self, rows: Sequence[PromptRow], *, step: int) -> list[Completion]:
        """n completions of each prompt, neighbours."""
        rollout = self.config.actor_rollout_ref.rollout
        return self.generator.generate([row.tokens for row in rows], n=rollout.n, params=self._params(rollout, step))

    def greedy(self, rows: Sequence[PromptRow], *, step: int) -> list[Completion]:
        """The greedy response to each prompt, against which ReMax holds its samples."""
        return self.generator.generate([row.tokens for row in rows], n=1, params=self._greedy_params(step))

    def baseline(self, rows: Sequence[PromptRow], greedy: Sequence[Completion]) -> dict[str, Tensor]:
        """Scores of the greedy responses, of function and reward model together, one for each sample."""
        score_P = self.score(rows, greedy).score_B
        if self.reward is not None:
            inferences = {"reward": self._reward_inference(self.reward, self.of_reward(rows, greedy))}
            with self.reading.lent(inferences):
                found = infer(inferences, self.samples_of(greedy), executor=self.executor, planner=self.planner)
            score_P = score_P + found["rm_score"][:, 0]
        return {BASELINE: score_P.repeat_interleave(self.config.actor_rollout_ref.rollout.n)[:, None]}

    def _params(self, sampling: RolloutConfig | ValidationSamplingConfig, step: int) -> SamplingParams:
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=self.config.data.max_response_length,
            stop_token_ids=self.prompts.stop_token_ids,
            seed=self.config.trainer.seed,
            step=step,
        )

    def _greedy_params(self, step: int) -> SamplingParams:
        return replace(self._params(self.config.actor_rollout_ref.rollout, step), temperature=0.0)

    def samples_of(self, completions: Sequence[Completion]) -> Samples:
        return gather_samples(
            completions, max_response_length=self.config.data.max_response_length, pad_id=self.prompts.pad_token_id
        )

    def score(self, rows: Sequence[PromptRow], completions: Sequence[Completion]) -> Scores:
        """The reward function's score of each completion; zeros where only a reward model scores."""
        return score(self.runner, reward_samples(rows, completions, decode=self.prompts.decode))

    def of_reward(self, rows: Sequence[PromptRow], completions: Sequence[Completion]) -> Samples | None:
        """The samples in the reward model's own tokens, where it has others than the actor."""
        return None if self.retokenizer is None else self.retokenizer.samples(rows, completions)

    def infer(self, samples: Samples, *, of_reward: Samples | None = None) -> dict[str, Tensor]:
        """Log-probabilities and entropy; values, the reference's and the reward model's where these are used."""
        inferences = {"actor": self._actor_inference(width=samples.width)}
        if self.critic is not None:
            inferences["critic"] = self._critic_inference(self.reading.of(self.critic), width=samples.width)
        if self.reference is not None:
            inferences["ref"] = self._reference_inference(self.reference, width=samples.width)
        if self.reward is not None:
            inferences["reward"] = self._reward_inference(self.reward, of_reward)
        with self.reading.lent(inferences):
            return infer(inferences, samples, executor=self.executor, planner=self.planner)

    def _actor_inference(self, *, width: int) -> Inference:
        rows = self.config.actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu
        actor = self.reading.of(self.actor)
        collect = self._log_probs(actor, width=width, with_entropy=True)
        return Inference(actor, rows, ("logp", "entropy"), width, collect, self._budget("log_prob"))

    def _critic_inference(self, critic: Role, *, width: int) -> Inference:
        rows, collect = self.config.critic.forward_micro_batch_size_per_gpu, forward.values(critic, width=width)
        return Inference(critic, rows, ("values",), width, collect, self._budget("values"))

    def _reference_inference(self, reference: Role, *, width: int) -> Inference:
        rows = self.config.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu
        collect = self._log_probs(reference, width=width, with_entropy=False)
        return Inference(reference, rows, ("ref_logp",), width, collect, self._budget("ref"))

    def _reward_inference(self, reward: Role, samples: Samples | None) -> Inference:
        config = self.config.reward_model
        rows, collect = config.micro_batch_size_per_gpu, forward.last_scores(reward, weight=config.weight)
        return Inference(reward, rows, ("rm_score",), 1, collect, self._budget("reward"), samples)

    def _log_probs(self, role: Role, *, width: int, with_entropy: bool) -> forward.Collect:
        temperature = self.config.actor_rollout_ref.rollout.temperature
        return forward.log_probs(role, temperature=temperature, width=width, with_entropy=with_entropy)

    def _budget(self, name: str) -> Budget | None:
        return ppo_budgets(self.config).get(name)

    def _experience_or_end(
        self, samples: Samples, score_B: Tensor, inferred: Mapping[str, Tensor], *, step: int
    ) -> Experience:
        """Raises AgreedError, on all ranks alike, where log-probabilities, values or scores are no numbers."""
        try:
            return self.experience(samples, score_B, inferred)
        except ValueError as error:
            raise AgreedError(f"step {step} is not trained on: {error}", tells=leads()) from error

    def experience(self, samples: Samples, score_B: Tensor, inferred: Mapping[str, Tensor]) -> Experience:
        """Scores of function and reward model together, then rewards, advantages and returns."""
        if "rm_score" in inferred:
            score_B = score_B + inferred["rm_score"][:, 0]
        algorithm = corrected(self.config.algorithm, partial=self.partial is not None)
        n = self.config.actor_rollout_ref.rollout.n
        return make_experience(samples, score_B, inferred, algorithm=algorithm, kl_coef=self.kl.coef, n=n)

    def plan(self, samples: Samples, *, step: int) -> None:
        """Lengths are known: the search for the update's orders begins, beside rewards and inference."""
        learners = self._learners(step)
        rows = enumerate(self._mini_batches(samples, step))
        ahead = [shapes_ahead(learners, samples, rows_N, number=number) for number, rows_N in rows]
        self.planner.prepare([{name: (learners[name].role, each[name]) for name in learners} for each in ahead])

    def update(self, experience: Experience, *, step: int) -> list[Update]:
        """Every epoch's mini-batches; while critic_warmup lasts, the critic alone."""
        learners = self._learners(step)
        profiled = step in self.config.trainer.profile_steps
        options: dict[str, Any] = {"executor": self.executor, "planner": self.planner, "measure_memory": profiled}
        rows = enumerate(self._mini_batches(experience.samples, step))
        return [update(learners, experience, rows_N, number=number, **options) for number, rows_N in rows]

    def save_trace(self, step: int, updates: Sequence[Update], gathered: Gathered) -> None:
        """What each rank did in the step, on one clock."""
        spans = gather_spans(within(self.timers.spans, "step"), gathered.spans)
        self.outputs.save_trace(step, [each.report for each in updates], spans=spans)

    def _mini_batches(self, samples: Samples, step: int) -> Iterator[Tensor]:
        actor = self.config.actor_rollout_ref.actor
        return mini_batches(
            samples,
            size=actor.ppo_mini_batch_size,
            epochs=actor.ppo_epochs,
            shuffle=actor.shuffle,
            seed=self.config.trainer.seed * 1_000_003 + step,
        )

    def _learners(self, step: int) -> dict[str, Learner]:
        learners = {} if step <= self.config.trainer.critic_warmup else {"actor": self._actor_learner(step)}
        return learners if self.critic is None else learners | {"critic": self._critic_learner(self.critic)}

    def _critic_learner(self, critic: TrainedRole) -> Learner:
        config = self.config.critic

        def loss(mask_NR: Tensor) -> losses.LossFunction:
            return losses.value_loss(config, mask_NR, critic=critic)

        return Learner(critic, config.ppo_micro_batch_size_per_gpu, loss, self._budget("critic"))

    def _actor_learner(self, step: int) -> Learner:
        config, temperature = self.config.actor_rollout_ref.actor, self.config.actor_rollout_ref.rollout.temperature

        def loss(mask_NR: Tensor) -> losses.LossFunction:
            return losses.policy_loss(config, mask_NR, actor=self.actor, temperature=temperature)

        cut: dict[str, Any] = {"micro_batch": config.ppo_micro_batch_size_per_gpu, "budget": self._budget("actor")}
        beside = None if self.ptx is None else self.ptx.beside(self.actor, step=step, **cut)
        return Learner(self.actor, loss=loss, beside=beside, **cut)

    def validate(self, step: int) -> dict[str, float]:
        """Figures of the held-out prompts by data source, under val_kwargs' sampling (greedy by default). Without a
        reward function there are the responses' lengths alone. The samples stay to look at."""
        sampling, rows = self.config.actor_rollout_ref.rollout.val_kwargs, self.prompts.validation
        self.generator.load(self.actor)
        self.make_room()
        params = replace(self._params(sampling, VALIDATION_STEP), temperature=temperature_of(sampling))
        decode = self.prompts.decode
        judged = respond(self.generator, rows, n=sampling.n, params=params, runner=self.runner, decode=decode)
        self.take_back()
        self.outputs.save_validation(step, judged, decode=decode, keep=self.config.trainer.max_validation_to_keep)
        return values_of(judged.figures()) | judged.lengths()


def _due(step: int, *, every: int) -> bool:
    return every > 0 and step % every == 0
