import torch

from fusedrl.models.random_weights import random_source
from fusedrl.models.weights import shapes
from tests.distributed.model_jobs import TINY

NAME = "model.layers.1.mlp.up_proj.weight"


def test_a_tensor_depends_on_seed_and_name_alone() -> None:
    first, again = random_source(TINY, head="lm", seed=1), random_source(TINY, head="value", seed=1)
    torch.manual_seed(99)
    assert torch.equal(first(NAME), again(NAME))
    assert not torch.equal(first(NAME), first(NAME.replace("up", "gate")))
    assert not torch.equal(first(NAME), random_source(TINY, head="lm", seed=2)(NAME))


def test_every_tensor_has_its_shape_and_law() -> None:
    source = random_source(TINY, head="value", seed=1)
    for name, shape in shapes(TINY, head="value"):
        tensor = source(name)
        assert tensor.shape == shape
        if name.endswith("norm.weight"):
            assert (tensor == 1).all()
        elif name == "score.weight":
            assert (tensor == 0).all()
        else:
            assert 0.015 < tensor.std() < 0.025


def test_drawing_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    random_source(TINY, head="lm", seed=1)(NAME)
    assert torch.equal(before, torch.get_rng_state())
