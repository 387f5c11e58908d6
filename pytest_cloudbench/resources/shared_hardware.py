"""Hardware that several tests use in turn: the first creates it, the others get it again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.resources.errors import CloudError, NotOffered
from pytest_cloudbench.resources.facts import CreatedVolume, Launch, LaunchedInstance, Resource
from pytest_cloudbench.resources.provider import InterceptedProvider

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.host import Host
    from pytest_cloudbench.resources.provider import Provider
    from pytest_cloudbench.workloads.fio.data_pass import Initialisation

T = TypeVar("T")

CREATING = frozenset(
    ("attach", "attach_all", "create_placement_group", "create_volumes", "launch", "launch_many")
)
_CHANGING = {
    "detach": "it was detached",
    "modify_volume": "it was modified",
    "reboot": "it was rebooted",
    "start": "it was started again",
    "stop": "it was stopped",
}
"""Calls after which hardware is not what the next test asks for, and why."""
_REFUSED_IN_REPEATS = ("detach", "modify_volume")


def unnamed(launch: Launch) -> Launch:
    """Return a launch without the names of its tests: equal launches ask for the same hardware."""
    return replace(launch, name="", alternatives=tuple(map(unnamed, launch.alternatives)))


@dataclass
class _Made:
    """One creating call and its answer. ``on``: the ids of what it was given. ``taken``: the present test has it."""

    name: str
    needs: Any
    on: frozenset[str]
    answer: Any
    taken: bool = True

    @property
    def ids(self) -> set[str]:
        return {each.id for each in _each(self.answer)}

    def words(self) -> str:
        return f"{self.name} {_words(self.needs)}"


@dataclass
class _Use:
    """What is known of one shared resource beside its facts: how many tests used it, and what they left."""

    resource: Resource
    tests: int = 0
    initialisation: Initialisation | None = None
    store_initialised: tuple[Initialisation | None, ...] = ()
    unusable: str = ""


class SharedHardware(InterceptedProvider):
    """A provider whose hardware the tests of a scope share, or the repeats of one test.

    Calls that create something are answered by what an earlier test created for the same needs and does not use now.
    ``turn`` begins a test. A recording lies above it and records these answers, so each test replays by itself.

    Repeats (``scope`` is empty) must ask for the same in the same order, and keep everything until the last of them.
    The tests of a ``scope`` may ask for anything: what none of them can use any more is removed, and ``tell`` receives
    a sentence. Without ``volumes`` they share instances only. `end` removes the rest. Objects that live as long as the
    scope have a single turn, the last one; `next_test` counts their tests.
    """

    def __init__(
        self, scope: str = "", *, volumes: bool = True, tell: Callable[[str], None] = lambda sentence: None
    ) -> None:
        self._scope = scope
        self._volumes = volumes
        self._tell = tell
        self._made: list[_Made] = []
        self._uses: dict[str, _Use] = {}
        self._mark = f"CLOUDBENCH_TEST={uuid.uuid4().hex}"
        self._hosts: dict[str, Host] = {}
        self._noted: set[str] = set()
        self._provider: Provider
        self._last = False

    def turn(self, provider: Provider, *, last: bool = False) -> SharedHardware:
        """Begin a test, whose calls reach ``provider``. ``last``: nobody has the hardware after it, so it is removed.

        A ``provider`` that ``has_own_hardware`` for this repeat, such as its record, creates all.
        """
        self._provider, self._last = provider, last
        for made in self._made:
            made.taken = False
        if getattr(provider, "has_own_hardware", False):
            self._made.clear()
            self._uses.clear()
        self.label, self.region = provider.label, provider.region
        self.endpoint, self.run_id = provider.endpoint, provider.run_id
        return self

    def next_test(self) -> None:
        """Count one more test on everything: objects of a longer life than a test pass from test to test."""
        for use in self._uses.values():
            use.tests += 1

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the instance as a host; each test opens a new connection."""
        host = self._provider.host(instance, connect_timeout_s=connect_timeout_s)
        use = self._uses.get(instance.id)
        if not self._scope or self._last or use is None:
            return host
        host.mark = self._mark
        try:
            host.connect()
        except HostError as error:
            use.unusable = f"its host failed: {error}"
            raise
        if instance.id not in self._noted and self._launched_it(instance):
            from pytest_cloudbench.hosts.cleaning import note_home

            try:
                note_home(host)
            except HostError as error:
                use.unusable = f"it could not be cleaned: {error}"
            self._noted.add(instance.id)
        self._hosts[instance.id] = host
        return host

    def release(self, resources: Iterable[Resource]) -> None:
        """Take hardware back from a test, with what the facts say of it, and remove what nobody shares."""
        given = list(resources)
        if self._last or not self._scope:
            self._uses |= {each.id: _Use(each) for each in given if each.id not in self._uses}
            if self._last:
                self.end()
            return
        shared = {each.id for each in given} & self._uses.keys()
        for each in given:
            if each.id in shared:
                self._take_back(self._uses[each.id], each)
        self._hosts.clear()
        for made in self._made:
            made.taken = made.taken and not made.ids <= shared
        if others := [each for each in given if each.id not in shared]:
            self._provider.release(others)
        self._remove_unusable()

    def end(self) -> None:
        """Remove all that is left, at the end of the scope or of the last repeat; later tests create it again."""
        self._made.clear()
        uses, self._uses = self._uses, {}
        if uses:
            self._remove([use.resource for use in uses.values()])

    def _intercept(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if name in _CHANGING:
            self._changed(name, given)
        call = partial(getattr(self._provider, name), *args, **kwargs)
        if name in CREATING and self._is_shared(name, given):
            return self._created(name, _bare([args, _named(kwargs)]), frozenset(_ids(given)), call)
        answer = self._known(call())
        if name == "keep":
            self._forget({each.id for each in answer})
        return answer

    def _forget(self, kept: set[str]) -> None:
        """Give instances that stay after a failed test, and what was made for them, to no other test."""
        for made in [each for each in self._made if kept & (each.ids | each.on)]:
            self._made.remove(made)
            for each in made.ids:
                self._uses.pop(each, None)

    def _changed(self, name: str, given: Sequence[Any]) -> None:
        if not self._scope:
            if name in _REFUSED_IN_REPEATS:
                raise NotOffered(
                    f"{name} changes the hardware that all repeats of this test use: write on='fresh' in its marker "
                    "cloudbench_repeats"
                )
            return
        for resource_id in _ids(given[:1]):
            if resource_id in self._uses:
                self._uses[resource_id].unusable = _CHANGING[name]

    def _is_shared(self, name: str, given: Sequence[Any]) -> bool:
        """Return False for volumes that belong to one test, and for volumes that this pool did not create."""
        if name == "create_volumes":
            return self._volumes
        if name in ("attach", "attach_all"):
            return not self._scope or all(each in self._uses for each in _ids(given[:1]))
        return True

    def _created(self, name: str, needs: Any, on: frozenset[str], call: Callable[[], Any]) -> Any:
        made = self._again(name, needs)
        if made is None:
            try:
                made = _Made(name, needs, on, call())
            except BaseException:
                for each in on & self._uses.keys():  # it is unknown how far it came
                    if isinstance(self._uses[each].resource, CreatedVolume):
                        self._uses[each].unusable = f"{name} failed"
                raise
            self._made.append(made)
        made.taken = True
        for each in _each(made.answer):
            self._uses.setdefault(each.id, _Use(each)).resource = each
        return self._known(made.answer)

    def _again(self, name: str, needs: Any) -> _Made | None:
        """Return what was made for the same needs, as it is now; None if there is none to have."""
        for made in [each for each in self._made if not each.taken]:
            if (made.name, made.needs) == (name, needs):
                if self._refreshed(made):
                    return made
            elif not self._scope:
                raise NotOffered(
                    f"this repeat asks for other hardware than the first one ({name} {_words(needs)}, not "
                    f"{made.words()}): write on='fresh' in its marker cloudbench_repeats"
                )
        return None

    def _refreshed(self, made: _Made) -> bool:
        """Look at its instances again; return False if one of them does not run any more."""
        # A stop and start within a test may have changed their addresses.
        try:
            now = [
                self._provider.refresh(each) if isinstance(each, LaunchedInstance) else each
                for each in _each(made.answer)
            ]
        except CloudError as error:
            if not self._scope:
                raise
            self._lose(made, str(error))
            return False
        made.answer = tuple(now) if isinstance(made.answer, tuple) else now[0]
        if self._scope:
            for each in now:
                if isinstance(each, LaunchedInstance) and each.state != "running":
                    self._lose(made, f"it is {each.state!r}")
                    return False
        return True

    def _lose(self, made: _Made, why: str) -> None:
        for each in made.ids & self._uses.keys():
            self._uses[each].unusable = why
        self._remove_unusable()

    def _known(self, answer: T) -> T:
        """Return an answer with what is known of shared hardware in it."""
        if not self._scope:
            return answer
        if isinstance(answer, tuple):
            return tuple(map(self._known, answer))  # type: ignore[return-value]
        use = self._uses.get(getattr(answer, "id", ""))
        if use is None:
            return answer
        shared = "" if self._last else self._scope
        if isinstance(answer, LaunchedInstance):
            store = use.store_initialised
            return replace(answer, shared=shared, earlier_tests=use.tests, store_initialised=store)
        if isinstance(answer, CreatedVolume):
            done = use.initialisation
            return replace(answer, shared=shared, earlier_tests=use.tests, initialisation=done)
        return answer

    def _take_back(self, use: _Use, left: Resource) -> None:
        use.tests += 1
        use.unusable = use.unusable or getattr(left, "unusable", "")
        if isinstance(left, CreatedVolume):
            use.initialisation = left.initialisation
        if isinstance(left, LaunchedInstance):
            use.store_initialised = left.store_initialised
            if not use.unusable:
                use.unusable = self._cleaned(left)

    def _cleaned(self, instance: LaunchedInstance) -> str:
        """End what the test started there and remove its files. Return why that was not possible, or ""."""
        from pytest_cloudbench.hosts.cleaning import clean

        host = self._hosts.get(instance.id)
        if host is None:
            return ""  # no command has run there
        try:
            clean(host, self._mark, ours=self._launched_it(instance))
        except HostError as error:
            return f"it could not be cleaned: {error}"
        return ""

    def _launched_it(self, instance: LaunchedInstance) -> bool:
        """Return True if the instance bears the mark of this run, so that nothing on it is anybody else's."""
        return bool(self.run_id) and self.run_id in instance.tags.values()

    def _remove_unusable(self) -> None:
        """Remove what no test can have any more, with all that was made for it or together with it."""
        taken = {each for made in self._made if made.taken for each in made.ids}
        lost = {each for each, use in self._uses.items() if use.unusable} - taken
        if not lost:
            return
        for each in lost:
            use = self._uses[each]
            self._tell(f"{use.resource} is not used by another test: {use.unusable}")
        while gone := [made for made in self._made if not made.taken and lost & (made.ids | made.on)]:
            for made in gone:
                self._made.remove(made)
                lost |= made.ids
        self._remove([self._uses.pop(each).resource for each in lost if each in self._uses])

    def _remove(self, resources: Sequence[Resource]) -> None:
        """Remove resources. Volumes leave instances that stay first: an attached one cannot be removed."""
        ending = {each.id for each in resources}
        for each in resources:
            attachment = each.attachment if isinstance(each, CreatedVolume) and self._scope else None
            if isinstance(each, CreatedVolume) and attachment and attachment.instance_id not in ending:
                with suppress(
                    CloudError
                ):  # it may be free already; the end of the session reports what stays
                    self._provider.detach(each)
        self._provider.release(resources)


def _each(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _ids(given: Any) -> Iterable[str]:
    """Yield the ids of all resources in the arguments of a call."""
    for each in given:
        if isinstance(each, list | tuple):
            yield from _ids(each)
        elif isinstance(each, Resource):
            yield each.id


def _named(kwargs: dict[str, Any]) -> list[Any]:
    """Return keyword arguments without names for people, which differ from test to test, and without unset ones."""
    return [
        (key, value)
        for key, value in sorted(kwargs.items(), key=lambda pair: pair[0])
        if key != "name" and value is not None and value != ()
    ]


def _bare(value: Any) -> Any:
    """Return what a call asks for, equal for equal needs: resources by their ids, launches without names."""
    if isinstance(value, list | tuple):
        return tuple(map(_bare, value))
    if isinstance(value, Launch):
        return unnamed(value)
    return value.id if isinstance(value, Resource) else value


def _words(needs: Any) -> str:
    """Return the positional arguments of a call in words."""
    return ", ".join(
        each.type if isinstance(each, Launch) else str(each)
        for arg in needs[0]
        for each in (arg if isinstance(arg, tuple) else [arg])
    )
