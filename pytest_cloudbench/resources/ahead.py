"""Instances that are launched ahead: those of the next tests start while the present test measures."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Launch, LaunchedInstance, PlacementGroup
from pytest_cloudbench.resources.provider import InterceptedProvider
from pytest_cloudbench.resources.shared_hardware import unnamed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_cloudbench.hosts.host import Host
    from pytest_cloudbench.resources.facts import Resource
    from pytest_cloudbench.resources.provider import Provider

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

    claimed: a test takes them; group_taken: a test has their group. unneeded: they are released.
    """

    need: Need
    launched: Future[tuple[LaunchedInstance, ...]] = field(default_factory=Future)
    group: Future[PlacementGroup] = field(default_factory=Future)
    unneeded: threading.Event = field(default_factory=threading.Event)
    claimed: bool = False
    group_taken: bool = False
    running_since: float = 0.0


class Ahead(InterceptedProvider):
    """A provider that answers launches by instances that it began to launch before.

    `expect` says what the next tests launch. What was launched ahead and is no longer expected is released. If a launch
    ahead fails, its test launches again and gets the error itself.
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
        self._strategy: str | None = None
        self._shortage: CloudError | None = None
        self._said = False
        self.label, self.region = provider.label, provider.region
        self.endpoint, self.run_id = provider.endpoint, provider.run_id

    def expect(self, present: Need | None, coming: Sequence[Need]) -> None:
        """Begin to launch what comes after the present test, unless it has begun, and release what is not needed."""
        self._say_shortage()
        self._strategy = present.strategy if present is not None else None
        missing = [] if self._shortage is not None else list(coming)
        needed = [*([present] if present is not None else []), *missing]
        for begun in [each for each in self._begun if not each.claimed]:
            found = None if begun.group_taken else next((n for n in needed if _equal(n, begun.need)), None)
            if found is None:
                self._release_begun(begun)
                continue
            needed.remove(found)
            if found is not present:
                missing.remove(found)
        for need in missing:
            if not any(_equal(need, each) for each in self._failed):
                self._begin(need)

    def end(self) -> None:
        """Release everything that no test has taken, and wait until no launch goes on."""
        for begun in list(self._begun):
            self._release_begun(begun)
        for thread in self._threads:
            while thread.is_alive():
                thread.join(_SLICE_S)
        self._say_shortage()

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the instance as a host."""
        return self._provider.host(instance, connect_timeout_s=connect_timeout_s)

    def release(self, resources: Iterable[Resource]) -> None:
        """Remove what one test created."""
        self._provider.release(resources)

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
            begun = next((each for each in self._begun if _answers(each, launches, group)), None)
            if begun is None:
                return None
            begun.claimed = True
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
        """Return the placement group of the first instances launched ahead, if the present test needs one."""
        if strategy != self._strategy:
            return None
        for begun in self._begun:
            if begun.need.strategy == strategy and not begun.claimed and _error_of(begun.group) is None:
                begun.group_taken = True
                return begun.group.result()
        return None

    def _launch_now(self, call: Callable[[], Any]) -> Any:
        """Launch for the present test. If there is no room beside what is ahead, release that and launch again."""
        try:
            return call()
        except CloudError as error:
            if error.code not in self._shortages or not self._begun:
                raise
            self._stop(error)
        return call()

    # Threads

    def _begin(self, need: Need) -> None:
        begun = _Begun(need)
        self._begun.append(begun)
        thread = threading.Thread(target=self._launch, args=(begun,), name=LAUNCHING, daemon=True)
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        thread.start()

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
        if unneeded:  # it was not known yet what to release
            self._remove(begun)

    def _note_failure(self, begun: _Begun, error: Exception) -> bool:
        """Note why a launch failed; return True if nobody needed it any more."""
        with self._lock:
            for future in (begun.group, begun.launched):
                if not future.done():
                    future.set_exception(error)
            if begun.unneeded.is_set():
                return True
            self._failed.append(begun.need)
        if isinstance(error, CloudError) and error.code in self._shortages:
            self._stop(error)
        return False

    def _stop(self, error: CloudError) -> None:
        """Release what no test has taken, and launch nothing ahead from now on."""
        self._shortage = self._shortage or error
        for begun in list(self._begun):
            if not begun.claimed:
                self._release_begun(begun)

    def _say_shortage(self) -> None:
        """Report once, in the thread of the tests, why nothing is launched ahead any more."""
        if self._shortage is not None and not self._said:
            self._said = True
            self._say(
                f"nothing is launched ahead any more, because there was no room for it: {self._shortage}"
            )

    def _release_begun(self, begun: _Begun) -> None:
        """Release what was launched ahead; if it is still being launched, the thread that does so releases it."""
        with self._lock:
            if begun in self._begun:
                self._begun.remove(begun)
            begun.unneeded.set()
            ended = begun.launched.done()
        if ended:
            self._remove(begun)

    def _remove(self, begun: _Begun) -> None:
        made: list[Resource] = []
        if begun.launched.exception() is None:
            made += begun.launched.result()
        if begun.group.done() and begun.group.exception() is None and not begun.group_taken:
            made.append(begun.group.result())
        if made:
            self._provider.release(made)


def _equal(one: Need, other: Need) -> bool:
    return one.strategy == other.strategy and one.is_met_by(other.launches)


def _answers(begun: _Begun, launches: Sequence[Launch], group: PlacementGroup | str | None) -> bool:
    """Return True if what was launched ahead is what a test launches now, into this placement group."""
    if begun.claimed or not begun.need.is_met_by(launches):
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
