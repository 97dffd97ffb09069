"""Times of a device."""

import pytest

from schedules.transformer.device import DEVICES, Device

DEVICE = Device("d", peak=100.0, efficiency=0.5, bandwidth=10.0, latency=0.25)


def test_work_is_shared_evenly_at_the_efficiency():
    assert DEVICE.work_seconds(1000.0, tp=1) == 20
    assert DEVICE.work_seconds(1000.0, tp=4) == 5


def test_messages_take_the_latency_and_their_bytes():
    assert DEVICE.message_seconds(0) == 0.25
    assert DEVICE.message_seconds(5.0) == 0.75


@pytest.mark.parametrize(("name", "teraflops", "gigabits"), [("a100", 312, 200), ("h100", 989, 400)])
def test_sheets_hold_the_published_numbers(name, teraflops, gigabits):
    device = DEVICES[name]
    assert (device.peak, device.bandwidth * 8) == (teraflops * 1e12, gigabits * 1e9)
