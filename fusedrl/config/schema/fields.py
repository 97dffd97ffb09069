"""How a schema declares a key: its default, its help and the values it may take, in one place.

    lr: float = key(1e-6, help="Peak learning rate", above=0)
    megatron: MegatronConfig = group(MegatronConfig, help="Layout of the actor")

The help is printed by --help and by docs/configuration.md; the limits are held by fusedrl.config.check_values.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

REQUIRED = "???"  # OmegaConf's mark of a value that must be given


@dataclass(frozen=True)
class Limits:
    """Values a key may take; None in a field means no such limit."""

    choices: tuple[str, ...] = ()
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    switch: float | None = None  # a value outside the range that has a meaning of its own, such as -1 for "off"

    def broken_by(self, value: object) -> str | None:
        """What is wrong with `value` ("must be above 0"), or None."""
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        finite = isinstance(value, int) or math.isfinite(value)  # isfinite itself fails for integers no float holds
        return self._out_of_range(value) if finite else "must be a finite number"

    def _out_of_range(self, value: float) -> str | None:
        reason = self._out_of_bounds(value)
        if reason is None or self.switch is None:
            return reason
        return None if value == self.switch else f"{reason}, or {self.switch:g}"

    def _out_of_bounds(self, value: float) -> str | None:
        if self.at_least is not None and not value >= self.at_least:
            return f"must be at least {self.at_least:g}"
        if self.above is not None and not value > self.above:
            return f"must be above {self.above:g}"
        if self.at_most is not None and not value <= self.at_most:
            return f"must be at most {self.at_most:g}"
        if self.below is not None and not value < self.below:
            return f"must be below {self.below:g}"
        return None

    def text(self) -> str:
        """The limits in a few characters, for the reference page: ">0, <=1" or "a | b"."""
        signs = ((">=", self.at_least), (">", self.above), ("<=", self.at_most), ("<", self.below))
        bounds = ", ".join(f"{sign}{limit:g}" for sign, limit in signs if limit is not None)
        return " | ".join(self.choices) or bounds + (f" or {self.switch:g}" if self.switch is not None else "")


def key(
    default: Any,
    *,
    help: str,
    choices: tuple[str, ...] = (),
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    switch: float | None = None,
) -> Any:
    """A field with a value. A list's limits hold for each of its items."""
    limits = Limits(choices=choices, at_least=at_least, above=above, at_most=at_most, below=below, switch=switch)
    metadata = {"help": help, "limits": limits}
    if isinstance(default, list | dict):
        copy = type(default)
        return dataclasses.field(default_factory=lambda: copy(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def token_budget(*, help: str) -> Any:
    """A budget of padded tokens; which passes it cuts is in fusedrl.config.budgets."""
    return key(16384, help=f"{help}: tokens (rows x longest row, padding included) of one micro-batch", at_least=1)


def group(schema: Callable[[], Any], *, help: str) -> Any:
    """A field that holds another schema."""
    return dataclasses.field(default_factory=schema, metadata={"help": help})
