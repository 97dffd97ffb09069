"""All keys of `-m fusedrl.sft`."""

from dataclasses import dataclass

from fusedrl.config.schema.data import SFTDataConfig
from fusedrl.config.schema.fields import group
from fusedrl.config.schema.one_model import OneModelConfig


@dataclass(frozen=True)
class SFTConfig(OneModelConfig):
    data: SFTDataConfig = group(SFTDataConfig, help="Training rows")
