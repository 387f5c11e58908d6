"""Loads on volumes in virtual time."""

from __future__ import annotations

import os
import weakref
from itertools import count

from pytest_cloudbench.twin.volumes.figures import VolumeFigures
from pytest_cloudbench.twin.volumes.pacer import Answer
from pytest_cloudbench.twin.volumes.shared_pages import VolumeState

FULL = (None, None)


def volume_state(pieces=0):
    """Return a new state, closed when nothing uses it: thousands of examples would take all descriptors."""
    state = VolumeState.create(pieces)
    weakref.finalize(state, os.close, state.descriptor)
    return state


class Load:
    """I/O that keeps ``depth`` requests in flight on a volume; ``places`` yields offset, size and direction."""

    def __init__(self, node, depth, places):
        self.node, self.depth, self.places = node, depth, iter(places)
        self.answers = []


class Bench:
    """Volumes in virtual time, which begins at ``now``."""

    def __init__(self, engine, now=1000.0):
        self.pacer = engine.Pacer()
        self.now = self.begin = now
        self.states = {}

    def volume(self, figures=None, *, node=2, pieces=0, untouched=0, levels=FULL, path_s=0.0):
        state = self.states[node] = volume_state(pieces)
        state.set_untouched(0, untouched)
        self.pacer.add(node, -1, state, path_s)
        self.pacer.limit_volume(node, figures or VolumeFigures(256 * 1024), levels, self.now)
        return node

    def run(self, seconds, *loads):
        """Answer every request when it is due; return the answers of each load within ``seconds``."""
        pacer, end = self.pacer, self.now + seconds
        for number, load in enumerate(loads):
            load.answers = []
            for _ in range(load.depth):
                self._send(number, load, self.now)
        while (at := max(pacer.next_event(), self.now)) <= end:
            self.now = at
            while (found := pacer.take_due(at)) is not None:
                answer = Answer(*found)
                pacer.done(answer, at)
                loads[answer.unique].answers.append(answer)
                self._send(answer.unique, loads[answer.unique], at)
        self.now = end
        return [load.answers for load in loads]

    def _send(self, number, load, at):
        place = next(load.places, None)
        if place is not None:
            offset, size, write = place
            self.pacer.arrive(load.node, at, offset, size, write, number)

    def settle(self):
        """Answer all waiting requests."""
        while (at := self.pacer.next_event()) < float("inf"):
            self.now = max(self.now, at)
            while (found := self.pacer.take_due(self.now)) is not None:
                self.pacer.done(found, self.now)


def scattered(size=4096, write=False):
    """Yield places that do not follow each other."""
    return ((number * 7 * 2**20, size, write) for number in count(1))


def in_a_row(size=4096, write=False, begin=0):
    return ((begin + number * size, size, write) for number in count())
