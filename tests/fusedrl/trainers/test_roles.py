import pytest

from fusedrl.config.schema import MegatronConfig
from fusedrl.models.options import PLAIN, Recompute, StageOptions
from fusedrl.models.stage_layers import StageLayers
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
        (MegatronConfig(pipeline_layers=[3, 5]), StageOptions(layers=StageLayers(each=(3, 5)))),
        (MegatronConfig(sequence_parallel=True), StageOptions(sequence_parallel=True)),
        (
            MegatronConfig(num_layers_in_first_pipeline_stage=1, num_layers_in_last_pipeline_stage=2),
            StageOptions(layers=StageLayers(first=1, last=2)),
        ),
    ],
)
def test_stages_are_built_as_the_configuration_says(megatron: MegatronConfig, options: StageOptions) -> None:
    assert stage_options(megatron) == options
