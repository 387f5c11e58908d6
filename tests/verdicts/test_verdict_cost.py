"""A verdict over an hour of seconds costs little: its search for falls reads a series a few times, not n times."""

import random
import time

import pytest
from synthetic_networks import noise

from pytest_cloudbench.verdicts.change_point import find_falls


def cost_s(count, falls):
    """The least CPU time of five searches of a series with so many falls, in seconds."""
    factors = noise(count, 0.05, random.Random(7), 0.5)
    each = count // (falls + 1)
    values = [(10 - 2 * (index // each)) * factor for index, factor in enumerate(factors)]
    seconds = [float(index + 1) for index in range(count)]
    costs = []
    for _ in range(5):
        begin = time.process_time()
        found = find_falls(seconds, values)
        costs.append(time.process_time() - begin)
    assert len(found.lasting) == falls
    return min(costs)


@pytest.mark.parametrize("falls", [0, 1, 3])
def test_the_falls_of_an_hour_are_found_in_no_time(falls):
    assert cost_s(3_600, falls) < 0.040


def test_ten_times_the_samples_cost_about_ten_times_as_much():
    assert cost_s(36_000, 3) < 30 * cost_s(3_600, 3)
