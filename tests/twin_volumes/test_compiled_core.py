"""The compiled law gives the answers of the Python law, to rounding."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import volume_state

from pytest_cloudbench.limits.volume_types import ServiceTime
from pytest_cloudbench.twin.volumes.figures import Burst, Limit, StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.shared_pages import VolumeState

KIB, MIB = 1024, 1024**2
PIECES = 256
NODES = (2, 3, 7)

rates = st.sampled_from([math.inf, 100.0, 3000.0, 16_000.0])
factors = st.sampled_from([1.0, 60.0])


@st.composite
def limits(draw, scale=1.0):
    rate = draw(rates) * scale
    if math.isinf(rate) or draw(st.booleans()):
        return Limit(rate)
    least_gain = rate / 100 if draw(st.booleans()) else 0.0
    return Limit(rate, Burst(rate * draw(st.floats(0.001, 2)), rate / 10, rate, least_gain, draw(factors)))


stages = st.builds(StageFigures, limits(), limits(16.0 * KIB))
services = st.sampled_from(
    [
        None,
        ServiceTime(300e-6, 0.15, 2 * 1024.0**3),
        ServiceTime(10e-3, 0.3, 0.5 * 1024.0**3, sequential_s=1.5e-3),
        ServiceTime(100e-6, 0.15, 2 * 1024.0**3, write_s=60e-6),
    ]
)
volumes = st.one_of(
    st.builds(
        VolumeFigures,
        st.sampled_from([16 * KIB, 256 * KIB]),
        st.booleans(),
        stages,
        st.none() | stages,
        service=services,
        touch_per_s=st.sampled_from([math.inf, 800.0]),
        touch_share=st.sampled_from([1.0, 0.5]),
        large_write_share=st.sampled_from([1.0, 0.25]),
    ),
    st.builds(VolumeFigures, st.just(MIB), limits=stages, whole_units=st.just(True), service=services),
)
levels = st.tuples(st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e9))
nodes = st.sampled_from(NODES)
sizes = st.sampled_from([512, 4 * KIB, 16 * KIB, 64 * KIB, 124 * KIB, 256 * KIB, MIB])
steps = st.one_of(
    # Requests in a row, all at once.
    st.tuples(st.just("row"), nodes, st.integers(0, 64), sizes, st.integers(1, 24), st.booleans()),
    st.tuples(
        st.just("random"), nodes, st.lists(st.tuples(st.integers(0, 300), sizes, st.booleans()), max_size=12)
    ),
    st.tuples(st.just("pass time"), st.sampled_from([0.0, 1e-5, 1e-3, 0.05, 1.0, 100.0])),
    st.tuples(st.just("answer"), st.integers(1, 200)),
    st.tuples(st.just("limit volume"), nodes, volumes, levels),
    st.tuples(st.just("limit instance"), stages, levels),
    st.tuples(st.just("pace"), st.booleans()),
    st.tuples(st.just("earn")),
    st.tuples(st.just("drop"), nodes),
)


class Both:
    """Both laws, which get the same calls."""

    def __init__(self, python, core, path_s):
        self.now = 12_345.678
        self.one, self.other = python.Pacer(), core.Pacer()
        self.unique = 0
        self.states = []
        for node in NODES:
            for pacer in (self.one, self.other):
                state = volume_state(PIECES)
                state.set_untouched(PIECES // 4, PIECES)
                self.states.append(state)
                pacer.add(node, 40 + node, state, path_s)
                pacer.limit_volume(node, VolumeFigures(256 * KIB), (None, None), self.now)

    def each(self, method, *arguments):
        return [getattr(pacer, method)(*arguments) for pacer in (self.one, self.other)]

    def arrive(self, node, offset, size, write):
        self.unique += 1
        self.each("arrive", node, self.now, offset, size, write, self.unique, self.unique % 7)

    def answer(self, most):
        for _ in range(most):
            due, same = self.each("next_event")
            assert same == pytest.approx(due, rel=1e-12)
            if math.isinf(due):
                return
            self.now = max(self.now, due, same)
            found, same = self.each("take_due", self.now)
            self.agree(found, same)
            if found is not None:
                self.one.done(found, self.now + 1e-6)
                self.other.done(same, self.now + 1e-6)

    def agree(self, one, other):
        assert (one is None) == (other is None)
        if one is not None:
            assert tuple(other) == pytest.approx(tuple(one), rel=1e-9, abs=1e-9, nan_ok=True)

    def check(self):
        for node in NODES:
            self.agree(*self.each("figures", node, self.now))
            self.agree(*self.each("levels", node, self.now))
            assert self.one.backing(node) == self.other.backing(node) == 40 + node
        self.agree(*self.each("levels", None, self.now))
        ours, theirs = self.states[::2], self.states[1::2]
        assert [bytes(state.memory) for state in ours] == [bytes(state.memory) for state in theirs]


@given(steps=st.lists(steps, max_size=40), path_s=st.sampled_from([0.0, 60e-6]))
@settings(max_examples=300)
def test_any_sequence_of_requests_has_equal_answers(python, core, steps, path_s):
    both = Both(python, core, path_s)
    for kind, *step in steps:
        if kind == "row":
            node, place, size, times, write = step
            for number in range(times):
                both.arrive(node, place * 64 * KIB + number * size, size, write)
        elif kind == "random":
            node, places = step
            for place, size, write in places:
                both.arrive(node, place * 64 * KIB, size, write)
        elif kind == "pass time":
            both.now += step[0]
        elif kind == "answer":
            both.answer(step[0])
        elif kind == "limit volume":
            both.each("limit_volume", *step, both.now)
        elif kind == "limit instance":
            both.each("limit_instance", *step, both.now)
        elif kind == "pace":
            both.one.paced = both.other.paced = step[0]
        elif kind == "earn":
            both.each("earn", both.now)
        else:
            dropped, same = both.each("drop", *step)
            assert len(dropped) == len(same)
            for found, other in zip(dropped, same, strict=True):
                both.agree(found, other)
                both.one.done(found, both.now)
                both.other.done(other, both.now)
        both.check()
    both.answer(10**6)
    both.check()


def test_long_loads_with_many_streams_have_equal_answers(python, core):
    """Many more I/Os than the streams remember."""
    both = Both(python, core, 0.0)
    both.each(
        "limit_volume",
        2,
        VolumeFigures(256 * KIB, limits=StageFigures(Limit(5000.0))),
        (None, None),
        both.now,
    )
    for number in range(600):
        for stream in range(40):
            scattered = (number * 40 + stream) * 2_654_435_761 % 2**28
            offset = scattered * 4 * KIB if stream % 3 == 0 else (stream * 2**30) + number * 16 * KIB
            both.arrive(2, offset, 16 * KIB, stream % 5 == 0)
        both.now += 0.004
        both.answer(30)
    both.answer(10**6)
    both.check()
    assert both.one.figures(2, both.now).answered == 600 * 40


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda pacer: pacer.arrive(9, 0.0, 0, 4096, False), KeyError),
        (lambda pacer: pacer.arrive(2, 0.0, -1, 4096, False), ValueError),
        (lambda pacer: pacer.arrive(2, 0.0, 2**62, 2**62, False), ValueError),
        (lambda pacer: pacer.arrive(2, 0.0, 0, -1, False), ValueError),
        (lambda pacer: pacer.done((0.0, 9, 0.0, 4096, False, 0, 0, 0), 0.0), KeyError),
        (lambda pacer: pacer.done((0.0, 2), 0.0), TypeError),
        (lambda pacer: pacer.done(None, 0.0), TypeError),
        (lambda pacer: pacer.take_due(None), TypeError),
        (lambda pacer: pacer.remove(9), KeyError),
        (lambda pacer: pacer.remove("2"), TypeError),
        (lambda pacer: pacer.levels("2", 0.0), TypeError),
        (lambda pacer: pacer.figures(9, 0.0), KeyError),
        (lambda pacer: pacer.add(2, 0, volume_state(), 0.0), ValueError),
        (lambda pacer: pacer.add_volume(5, 0, 0.0, bytearray(8), 0, 8, 4096), None),
        (lambda pacer: pacer.add_volume(5, 0, 0.0, bytearray(7), 0, 8, 4096), ValueError),
        (lambda pacer: pacer.add_volume(5, 0, 0.0, bytearray(99), -8, 8, 4096), ValueError),
        (lambda pacer: pacer.add_volume(5, 0, 0.0, b"read only" * 9, 0, 8, 4096), TypeError),
        (lambda pacer: pacer.limit_volume(2, VolumeFigures(0), (None, None), 0.0), ValueError),
        (lambda pacer: pacer.set_service_times(2, (1.0,) * 4, 1.0, 1, b""), ValueError),
    ],
)
def test_wrong_arguments_are_refused(core, call, error):
    pacer = core.Pacer()
    pacer.add(2, 0, volume_state(), 0.0)
    if error is None:
        call(pacer)
    else:
        with pytest.raises(error):
            call(pacer)


def test_a_state_is_kept_while_its_volume_is_there(core):
    pacer, state = core.Pacer(), VolumeState.create(8)
    pacer.add(2, 0, state, 0.0)
    with pytest.raises(BufferError):
        state.close()
    pacer.remove(2)
    state.close()
