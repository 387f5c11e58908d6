"""Instances that are launched ahead: those of the next tests start while the present test measures."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Launch, LaunchedInstance, PlacementGroup, Resource
from pytest_cloudbench.resources.provider import InterceptedProvider, Provider
from pytest_cloudbench.resources.shared_hardware import unnamed

LAUNCHING = "cloudbench-ahead"
"""Name of the threads that launch ahead."""
_SLICE_S = 0.5


@dataclass(frozen=True)
class Need:
    """Instances that a test launches by one call; `strategy` is that of a placement group of their own, if any."""

    launches: tuple[Launch, ...]
    strategy: str | None = None

    def is_met_by(self, launches: Sequence[Launch]) -> bool:
        """Return True if these launches request the same instances, whatever their names."""
        return list(map(unnamed, self.launches)) == list(map(unnamed, launches))


@dataclass(eq=False)
class _Begun:
    """Instances whose launch has begun. group: their placement group, if they need one.

    claimed: a test takes them, or has already taken their group. unneeded: they are released.
    """

    need: Need
    launched: Future[tuple[LaunchedInstance, ...]] = field(default_factory=Future)
    group: Future[PlacementGroup] = field(default_factory=Future)
    unneeded: threading.Event = field(default_factory=threading.Event)
    claimed: bool = False
    running_since: float = 0.0


class Ahead(InterceptedProvider):
    """A provider that answers launches with instances that it began to launch in advance.

    `expect` says what the present test and the next ones launch. A test gets what was launched ahead for it, never what
    a later test needs. What is no longer expected is released. If a launch ahead fails, its test launches again and
    gets the error itself.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        shortages: Iterable[str] = (),
        say: Callable[[str], None] = lambda _: None,
        end_waits_on: Callable[[threading.Event], None] = lambda _: None,
    ) -> None:
        """`shortages` are the codes of errors that fewer instances would have avoided. `say` shows a sentence.

        `end_waits_on` lets the provider's waits in the calling thread end as soon as the event is set.
        """
        self._provider = provider
        self._shortages = frozenset(shortages)
        self._say = say
        self._end_waits_on = end_waits_on
        self._lock = threading.Lock()
        self._begun: list[_Begun] = []
        self._threads: list[threading.Thread] = []
        self._failed: list[Need] = []
        self._present: _Begun | None = None
        self._shortage: CloudError | None = None
        self._said = False
        self.label, self.region = provider.label, provider.region
        self.endpoint, self.run_id = provider.endpoint, provider.run_id

    def expect(self, present: Need | None, coming: Sequence[Need]) -> None:
        """Begin to launch what comes after the present test, unless it has begun, and release what is not needed."""
        self._say_shortage()
        with self._lock:
            unneeded = [each for each in self._begun if not each.claimed]
            self._present = _pop(unneeded, present) if present is not None else None
            missing = [need for need in coming if _pop(unneeded, need) is None]
            unneeded += [each for each in self._begun if each.claimed]  # their test took only the group
        self._release(lambda begun: begun in unneeded)
        for need in missing:
            self._begin(need)

    def end(self) -> None:
        """Release everything that no test has taken, and wait until no launch is in progress."""
        self._release(lambda begun: True)
        self._join()
        self._say_shortage()

    def _intercept(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        call = functools.partial(getattr(self._provider, name), *args, **kwargs)
        if name == "create_placement_group":
            return self._group_ahead(*args) or call()
        if name not in ("launch", "launch_many"):
            return call()
        options = {key: value for key, value in kwargs.items() if key != "placement_group"}
        launches = args[0] if name == "launch_many" else [Launch(*args, **options)]
        launched = self._launched_ahead(launches, kwargs.get("placement_group"))
        if launched is None:
            return self._launch_now(call)
        return launched if name == "launch_many" else launched[0]

    # What was launched ahead

    def _launched_ahead(
        self, launches: Sequence[Launch], group: PlacementGroup | str | None
    ) -> tuple[LaunchedInstance, ...] | None:
        """Return these instances once they run; None if they were not launched ahead, or do not run."""
        with self._lock:
            begun = self._present
            if begun is None or not _answers(begun, launches, group):
                return None
            self._present, begun.claimed = None, True
        error = _error_of(begun.launched)
        with self._lock:
            self._begun.remove(begun)
        if error is not None:
            return None
        waited_s = round(time.monotonic() - begun.running_since, 3)
        try:
            now = [self._provider.refresh(each) for each in begun.launched.result()]
        except CloudError:
            now = []
        if not now or any(each.state != "running" for each in now):  # one has ended while it waited
            self._remove(begun)
            return None
        return tuple(replace(each, waited_s=waited_s) for each in now)

    def _group_ahead(self, strategy: str = "cluster") -> PlacementGroup | None:
        """Return the placement group of what was launched ahead for the present test; None if there is none."""
        with self._lock:
            begun = self._present
            if begun is None or begun.claimed or begun.need.strategy != strategy:
                return None
            begun.claimed = True
        return begun.group.result() if _error_of(begun.group) is None else None

    def _launch_now(self, call: Callable[[], Any]) -> Any:
        """Launch for the present test. If instances launched ahead leave no room, release them and launch again."""
        try:
            return call()
        except CloudError as error:
            if error.code not in self._shortages or not (self._begun or self._launching()):
                raise
            self._stop(error)
            self._join()
        return call()

    # Threads

    def _begin(self, need: Need) -> None:
        begun = _Begun(need)
        with self._lock:
            if self._shortage is not None or any(_equal(need, each) for each in self._failed):
                return
            self._begun.append(begun)
        thread = threading.Thread(target=self._launch, args=(begun,), name=LAUNCHING, daemon=True)
        self._threads = [*self._launching(), thread]
        thread.start()

    def _launching(self) -> list[threading.Thread]:
        return [each for each in self._threads if each.is_alive()]

    def _join(self) -> None:
        """Wait until no launch is in progress."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(_SLICE_S)

    def _launch(self, begun: _Begun) -> None:
        self._end_waits_on(begun.unneeded)
        launches = [_launched_early(each) for each in begun.need.launches]
        try:
            group = None
            if begun.need.strategy is not None:
                group = self._provider.create_placement_group(begun.need.strategy, name=launches[0].name)
                begun.group.set_result(group)
            launched = self._provider.launch_many(launches, placement_group=group)
        except Exception as error:
            unneeded = self._note_failure(begun, error)
        else:
            with self._lock:
                begun.running_since = time.monotonic()
                begun.launched.set_result(launched)
                unneeded = begun.unneeded.is_set()
        if unneeded:  # it became unneeded before its resources were known
            self._remove(begun)

    def _note_failure(self, begun: _Begun, error: Exception) -> bool:
        """Note why a launch failed; return True if nobody needs it any more."""
        if isinstance(error, CloudError) and error.code in self._shortages and not begun.unneeded.is_set():
            self._stop(error)  # first: its test may be waiting, and then needs the room
        with self._lock:
            for future in (begun.group, begun.launched):
                if not future.done():
                    future.set_exception(error)
            if not (unneeded := begun.unneeded.is_set()):
                self._failed.append(begun.need)
        return unneeded

    def _stop(self, error: CloudError) -> None:
        """Release what no test has taken, and launch nothing ahead from now on."""
        with self._lock:
            self._shortage = self._shortage or error
        self._release(lambda begun: not begun.claimed)

    def _say_shortage(self) -> None:
        """Report once, in the thread of the tests, why nothing is launched ahead any more."""
        if self._shortage is not None and not self._said:
            self._said = True
            self._say(
                f"nothing is launched ahead any more, because there was no room for it: {self._shortage}"
            )

    def _release(self, unneeded: Callable[[_Begun], bool]) -> None:
        """Release what is unneeded; what is still being launched is released by the thread that does so."""
        with self._lock:  # so that no test claims it meanwhile
            found = [each for each in self._begun if unneeded(each)]
            for begun in found:
                self._begun.remove(begun)
                begun.unneeded.set()
            if self._present in found:
                self._present = None
            ended = [each for each in found if each.launched.done()]
        for begun in ended:
            self._remove(begun)

    def _remove(self, begun: _Begun) -> None:
        made: list[Resource] = []
        if begun.launched.exception() is None:
            made += begun.launched.result()
        if begun.group.done() and begun.group.exception() is None and not begun.claimed:
            made.append(begun.group.result())
        if made:
            self._provider.release(made)


def _pop(begun: list[_Begun], need: Need) -> _Begun | None:
    """Remove the first that meets a need from the list and return it; None if none does."""
    found = next((each for each in begun if _equal(each.need, need)), None)
    if found is not None:
        begun.remove(found)
    return found


def _equal(one: Need, other: Need) -> bool:
    return one.strategy == other.strategy and one.is_met_by(other.launches)


def _answers(begun: _Begun, launches: Sequence[Launch], group: PlacementGroup | str | None) -> bool:
    """Return True if what was launched ahead is what a test launches now, into this placement group."""
    if not begun.need.is_met_by(launches):
        return False
    if begun.need.strategy is None:
        return group is None
    return begun.group.done() and begun.group.exception() is None and begun.group.result() == group


def _error_of(future: Future[Any]) -> BaseException | None:
    """Wait for a future, in slices: only a thread that runs sees Ctrl-C. Return its error."""
    while not wait([future], timeout=_SLICE_S).done:
        pass
    return future.exception()


def _launched_early(launch: Launch) -> Launch:
    return replace(launch, ahead=True, alternatives=tuple(map(_launched_early, launch.alternatives)))
