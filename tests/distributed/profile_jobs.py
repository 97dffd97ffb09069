"""What the ranks do in the tests of fusedrl.profile."""

import os
from dataclasses import replace
from unittest.mock import patch

import torch

from fusedrl import profile as command
from fusedrl.plan.profile_file import profile_text
from fusedrl.plan.sizes import read_model

OPTIONS = command.Options(
    tokens=(16, 32),
    lengths=(8,),
    rows=(1, 2),
    contexts=(8,),
    bytes=(64, 256),
    layers=2,
    repeats=1,
    dtype="float32",
)


def measured(*, sequence_parallel: bool, local: int) -> str:
    """The text of the profile of "tiny" on the ranks there are, as if a node had `local` of them."""
    options = replace(OPTIONS, sequence_parallel=sequence_parallel)
    with patch.dict(os.environ, LOCAL_WORLD_SIZE=str(local)):
        return profile_text(command.measure(options, [read_model("tiny")], device=torch.device("cpu")))
