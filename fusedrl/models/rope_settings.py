"""What a Hugging Face config.json says about rotary positions, of transformers 4 or 5, by type. No torch here.

    default     theta alone
    linear      all frequencies divided by `factor`
    llama3      long wavelengths divided by `factor`, short ones kept
    yarn        a ramp between both; attention's scores grow by the square of an attention factor

Frequencies that depend on a row's length (dynamic, longrope) are refused by name: a token's keys, once cached, would
differ from those of a longer row.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from fusedrl.data.json_object import JsonObject

POSITIONS = "max_position_embeddings"
ORIGINAL = "original_max_position_embeddings"
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", ORIGINAL),
    "yarn": ("factor", ORIGINAL),
}
TYPES = tuple(REQUIRED)
FACTOR = "attention_factor"
YARN_OPTIONAL = (FACTOR, "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
PARTS = ("mrope_section", "partial_rotary_factor")  # what turns a part of a head only, or parts of it differently


@dataclass(frozen=True)
class Rope:
    """Rotary positions; `scaling` holds Hugging Face's numbers for its type (factor, low_freq_factor, ...)."""

    theta: float = 10000.0
    type: str = "default"
    scaling: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"rope_type={self.type!r} is not one of {', '.join(TYPES)}")

    @property
    def attention_factor(self) -> float:
        """By what yarn multiplies queries and keys; 1 for other types."""
        given = self.scaling.get(FACTOR)
        if self.type != "yarn" or given is not None:
            return 1.0 if given is None else given
        factor, scale, all_dim = (self.scaling.get(key) for key in ("factor", "mscale", "mscale_all_dim"))
        assert factor is not None
        if scale and all_dim:
            return _growth(factor, scale) / _growth(factor, all_dim)
        return _growth(factor, 1.0)

    @property
    def truncate(self) -> bool:
        """Whether yarn's ramp begins and ends at whole dimensions."""
        return bool(self.scaling.get("truncate", True))


UNSCALED = Rope()


def _growth(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def read_rope(config: JsonObject) -> Rope:
    """Keys as transformers 5 ranks them: rope_scaling before rope_parameters, theta inside before theta outside."""
    values = config.inner("rope_scaling")
    if not values.values:
        values = config.inner("rope_parameters")
    kind = values.text("rope_type", default=values.text("type", default="default"))
    if kind not in TYPES:
        raise ValueError(f"{values.where}: rope_type={kind!r} is not one of {', '.join(TYPES)}")
    for each in (config, values):
        _refuse_parts(each)
    return Rope(
        theta=values.number("rope_theta", default=config.number("rope_theta", default=10000.0)),
        type=kind,
        scaling=_scaling(config, values, kind=kind),
    )


def _scaling(config: JsonObject, values: JsonObject, *, kind: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in REQUIRED[kind]:
        found[name] = _original(config, values) if name == ORIGINAL else _number(config, values, name)
    return found | _of_yarn(values) if kind == "yarn" else found


def _of_yarn(values: JsonObject) -> dict[str, float]:
    """What may be given beside; a 0 counts as not given, but for the attention factor."""
    given = values.values
    names = [name for name in YARN_OPTIONAL if given.get(name) not in ((None,) if name == FACTOR else (None, 0))]
    found: dict[str, float] = {name: values.number(name) for name in names}
    return found | ({} if values.flag("truncate", default=True) else {"truncate": False})


def _number(config: JsonObject, values: JsonObject, name: str) -> float:
    """A factor that is there but null is what the positions have grown by."""
    if name == "factor" and name in values.values and values.values[name] is None:
        return config.size(POSITIONS) / _original(config, values)
    return values.number(name)


def _original(config: JsonObject, values: JsonObject) -> float:
    """Beside the rotary keys it counts more than among them; without it nothing has grown."""
    if config.values.get(ORIGINAL) is not None:
        return config.number(ORIGINAL)
    return values.number(ORIGINAL, default=float(config.size(POSITIONS, default=2048)))


def _refuse_parts(values: JsonObject) -> None:
    """What would turn other dimensions, or other layers otherwise."""
    for name in PARTS:
        if values.values.get(name) not in (None, 1, 1.0):
            raise ValueError(f"{values.where}: {name}={values.values[name]} is not supported; whole heads are turned")
    if values.where.endswith(("rope_scaling", "rope_parameters")):
        nested = [name for name, value in values.values.items() if isinstance(value, Mapping)]
        if nested:
            raise ValueError(f"{values.where}: {nested[0]}: layers with positions of their own are not supported")
