"""Who has gone quiet: a pure function of what was heard when.

An instance that is not heard for `silence_s` is dead or cut off. One that pulses but reports no progress for `stall_s`
is stuck. One that has not joined after `join_s` never came.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds that may pass. pulse_s: between two signs of life. step_s: the whole step, at most."""

    pulse_s: float = 0.5
    silence_s: float = 30.0
    stall_s: float = 600.0
    join_s: float = 120.0
    step_s: float = 24 * 3600.0

    def __post_init__(self) -> None:
        if not 0 < self.pulse_s < self.silence_s / 2:
            raise ValueError(
                f"rollout.stream.pulse_s={self.pulse_s:g}, silence_s={self.silence_s:g}: pulses must come "
                "at least twice in the silence that counts as death"
            )
        for name in ("stall_s", "join_s", "step_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"rollout.stream.{name}={getattr(self, name):g}: make it positive")


class Liveness:
    """When each instance was last heard, and when it last got on."""

    def __init__(self, instances: Sequence[int], *, limits: Limits, now: float) -> None:
        self._limits, self._began = limits, now
        self._heard = dict.fromkeys(instances, now)
        self._moved = dict.fromkeys(instances, now)
        self._progress = dict.fromkeys(instances, -1)
        self._activity = dict.fromkeys(instances, "starting")

    def heard(self, instance: int, *, now: float) -> None:
        self._heard[instance] = now

    def pulse(self, instance: int, *, progress: int, activity: str, now: float) -> None:
        self._heard[instance] = now
        if progress != self._progress[instance] or activity == IDLE:
            self._moved[instance] = now
        self._progress[instance], self._activity[instance] = progress, activity

    def trouble(self, *, missing: Sequence[int], now: float) -> str:
        """Why the step cannot go on; "" while it can. `missing`: instances that have not joined."""
        limits = self._limits
        if missing:
            if now - self._began > limits.join_s:
                return f"instances {', '.join(map(str, missing))} did not join within {limits.join_s:g} s"
            return ""
        for instance, heard in self._heard.items():
            if now - heard > limits.silence_s:
                return f"instance {instance} was last heard {now - heard:.1f} s ago, {self._activity[instance]}: dead"
            if now - self._moved[instance] > limits.stall_s:
                return f"instance {instance} is stuck for {limits.stall_s:g} s, {self._activity[instance]}"
        if now - self._began > limits.step_s:
            return f"the step took longer than rollout.stream.step_s={limits.step_s:g} s"
        return ""


IDLE = "waiting for work"  # no progress is expected of an instance that says so
