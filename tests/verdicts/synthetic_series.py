"""Series of rates made up for the search for falls: with one, and with everything that only looks like one."""

import math
import random
from dataclasses import dataclass

from synthetic_networks import noise

LENGTHS = (60, 120, 300, 600, 1_800)
LEVEL = 10.0


@dataclass(frozen=True)
class Dropping:
    """A series that falls ``at_s`` from one level to another."""

    seconds: list[float]
    values: list[float]
    at_s: float
    before: float
    after: float


def white(count, numbers):
    return noise(count, numbers.uniform(0.005, 0.12), numbers)


def autocorrelated(count, numbers):
    return noise(
        count, numbers.uniform(0.005, 0.12), numbers, numbers.choice([0.3, 0.5, 0.7, 0.8, 0.9, 0.97])
    )


def heavy_tailed(count, numbers):
    """Student's t with two degrees of freedom: now and then a value is anywhere."""
    spread = numbers.uniform(0.005, 0.08)
    return [1 + spread * numbers.gauss(0, 1) / math.sqrt(numbers.gammavariate(1, 1)) for _ in range(count)]


def drifting(count, numbers):
    rise = numbers.uniform(-0.6, 0.6)
    around = noise(count, numbers.uniform(0.005, 0.1), numbers, numbers.choice([0.0, 0.5, 0.9]))
    return [value + rise * (index / count - 0.5) for index, value in enumerate(around)]


def oscillating(count, numbers):
    period, height = numbers.uniform(6, 3 * count), numbers.uniform(0.02, 0.4)
    phase = numbers.uniform(0, 2 * math.pi)
    around = noise(count, numbers.uniform(0.005, 0.1), numbers)
    return [
        value + height * math.sin(2 * math.pi * index / period + phase) for index, value in enumerate(around)
    ]


def dipping(count, numbers):
    period = numbers.randint(8, max(9, count // 2))
    width, depth = numbers.randint(1, max(1, min(20, period // 3))), numbers.uniform(0.1, 0.95)
    phase = numbers.randrange(period)
    around = noise(count, numbers.uniform(0.005, 0.05), numbers)
    return [value - (depth if (index + phase) % period < width else 0) for index, value in enumerate(around)]


def rising(count, numbers):
    """Slow to start, or a level that is reached only later: a step, but up."""
    at, height = numbers.randrange(1, count), numbers.uniform(0.1, 0.8)
    around = noise(count, numbers.uniform(0.005, 0.05), numbers, 0.5)
    return [value - (height if index < at else 0) for index, value in enumerate(around)]


def recovering(count, numbers):
    """One long fall that is taken back before the end."""
    begin = numbers.randrange(count // 5, count // 2)
    length, depth = numbers.randrange(5, count // 3), numbers.uniform(0.2, 0.9)
    around = noise(count, numbers.uniform(0.005, 0.05), numbers, 0.5)
    return [value - (depth if begin <= index < begin + length else 0) for index, value in enumerate(around)]


def sliding(count, numbers):
    """A lasting fall that takes a while: at least 15 samples and 15 % of the run."""
    length = numbers.uniform(max(15, 0.15 * count), max(16, 0.6 * count))
    begin, depth = numbers.uniform(0.1, 0.5) * count, numbers.uniform(0.1, 0.9)
    around = noise(count, numbers.uniform(0.002, 0.08), numbers, numbers.choice([0.0, 0.5, 0.9]))
    return [
        value - depth * min(1.0, max(0.0, (index - begin) / length)) for index, value in enumerate(around)
    ]


KINDS = (white, autocorrelated, heavy_tailed, drifting, oscillating, dipping, rising, recovering)


def without_fall(number, kinds=KINDS, lengths=LENGTHS):
    """The ``number``th series without a fall: its kind, and its values."""
    numbers = random.Random(1_000 + number)
    kind = kinds[number % len(kinds)]
    factors = kind(numbers.choice(lengths), numbers)
    return kind.__name__, [max(0.0, LEVEL * factor) for factor in factors]


def with_fall(number):
    """The ``number``th series with one fall, in noise as TCP makes it, and with what else goes wrong.

    It starts slowly, single seconds stand out, dips recover, what follows the fall undershoots, and the
    last sample is not a full one.
    """
    numbers = random.Random(2_000 + number)
    count = numbers.choice([120, 300, 600, 1_800])
    at_s = numbers.uniform(0.15 * count, 0.85 * count)
    after = LEVEL * numbers.choice([0.025, 0.075, 0.125, 0.25, 0.25, 0.25, 0.5, 0.8])
    spread, memory = numbers.uniform(0.002, 0.015), numbers.choice([0.0, 0.3, 0.6, 0.9])
    values = []
    for index, factor in enumerate(noise(count, spread, numbers, memory)):
        share = min(1.0, max(0.0, at_s - index))
        values.append((LEVEL * share + after * (1 - share)) * factor)
    for index in range(numbers.randint(0, 4)):
        values[index] *= (index + 1) / 6
    apart = [index for index in range(count) if abs(index - at_s) > 5]
    for index in numbers.sample(apart, count // 100):
        values[index] *= numbers.choice([0.0, 0.3, 0.6, 1.3, 1.6])
    for _ in range(numbers.randint(0, 2)):
        begin, length = numbers.randrange(5, count - 12), numbers.randint(1, 5)
        if abs(begin - at_s) > 15:
            for index in range(begin, begin + length):
                values[index] *= numbers.uniform(0.1, 0.8)
    for index in range(math.ceil(at_s), math.ceil(at_s) + numbers.randint(0, 3)):
        values[index] *= numbers.uniform(0.3, 1.0)
    seconds = [float(index + 1) for index in range(count)]
    return Dropping([*seconds, count + 0.3], [*values, values[-1] / 4], at_s, LEVEL, after)
