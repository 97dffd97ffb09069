import pytest

from fusedrl.config.schema import MegatronConfig
from fusedrl.models.options import PLAIN, Recompute, StageOptions
from fusedrl.trainers.roles import stage_options


@pytest.mark.parametrize(
    ("megatron", "options"),
    [
        (MegatronConfig(), PLAIN),
        (MegatronConfig(recompute_num_layers=3), PLAIN),
        (MegatronConfig(recompute_granularity="selective"), StageOptions(recompute=Recompute("selective"))),
        (
            MegatronConfig(recompute_granularity="full", recompute_method="block", recompute_num_layers=3),
            StageOptions(recompute=Recompute("full", "block", 3)),
        ),
    ],
)
def test_stages_are_built_as_the_configuration_says(megatron: MegatronConfig, options: StageOptions) -> None:
    assert stage_options(megatron) == options
