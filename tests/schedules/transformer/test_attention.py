"""The attention core's multiples against the products that it is made of."""

from schedules.transformer.attention import CORES, squares


def test_packed_sequences_do_not_see_each_other():
    assert squares([3, 4]) == 25
    assert squares([7]) == 49


def test_products_of_each_core():
    product = 2  # FLOPs of Q K^T or of P V in s^2 h
    assert (CORES["stored"].forward, CORES["stored"].backward) == (2 * product, 4 * product)
    assert CORES["recomputed"].backward == CORES["stored"].backward + CORES["stored"].forward
    assert (CORES["flash"].forward, CORES["flash"].backward) == (2 * product / 2, 5 * product / 2)
    assert [core.kept > 0 for core in CORES.values()] == [False, False, True]
