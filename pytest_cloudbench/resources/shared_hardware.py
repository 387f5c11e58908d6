"""Hardware that several tests use in turn: the first creates it, the others reuse it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from pytest_cloudbench.hosts.cleaning import clean, note_home
from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import CreatedVolume, Launch, LaunchedInstance, Resource
from pytest_cloudbench.resources.provider import InterceptedProvider, Provider

T = TypeVar("T")

CREATING = frozenset(
    ("attach", "attach_all", "create_placement_group", "create_volumes", "launch", "launch_many")
)
_ATTACHING = ("attach", "attach_all")
_CHANGING = {
    "detach": "it was detached",
    "modify_volume": "it was modified",
    "reboot": "it was rebooted",
    "start": "it was started again",
    "stop": "it was stopped",
}
"""Calls after which hardware no longer meets the next test's request, and why."""


def unnamed(launch: Launch) -> Launch:
    """Return a launch without the names of its tests: equal launches ask for the same hardware."""
    return replace(launch, name="", alternatives=tuple(map(unnamed, launch.alternatives)))


class Made:
    """One creating call and its answer. ``on``: the ids in its arguments. ``taken``: the present test uses it."""

    def __init__(
        self, name: str, needs: Any, on: frozenset[str], answer: Any, by: InterceptedProvider
    ) -> None:
        self.name = name
        self.needs = needs
        self.on = on
        self.answer = answer
        self.by = by
        self.taken = True

    @property
    def ids(self) -> set[str]:
        return {each.id for each in each_of(self.answer)}


@dataclass
class _Use:
    """One shared resource as the last test left it, how many tests used it, and why no other test may."""

    resource: Resource
    by: SharedHardware
    tests: int = 0
    unusable: str = ""


class Stock:
    """The hardware that the tests of a session share, in all scopes: a change by any scope's provider counts."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self.uses: dict[str, _Use] = {}


class SharedHardware(InterceptedProvider):
    """A provider whose hardware the tests of one ``scope`` share.

    A creating call is answered with what an earlier test created for the same needs, if no test uses it now. ``turn``
    begins a test. The recording provider calls this one and records its answers, so each test can be replayed alone.

    ``shares`` are the creating calls whose answers are shared; the others create for the present test. Hardware that no
    test can use any more is removed, and ``tell`` receives a sentence about it. `end` removes the rest. A test may use
    hardware of several scopes, which share one ``stock``.
    """

    def __init__(
        self,
        scope: str,
        stock: Stock | None = None,
        *,
        shares: frozenset[str] = CREATING,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.scope = scope
        self._stock = stock or Stock()
        self._uses = self._stock.uses
        self._shares = shares
        self._tell = tell
        self._mark = f"CLOUDBENCH_TEST={uuid.uuid4().hex}"
        self._hosts: dict[str, Host] = {}
        self._noted: set[str] = set()
        self._provider: Provider

    def turn(self, provider: Provider) -> SharedHardware:
        """Begin a test and pass its calls to ``provider``."""
        self._provider = provider
        for made in self._made_by_it():
            made.taken = False
        self.label, self.region = provider.label, provider.region
        self.endpoint, self.run_id = provider.endpoint, provider.run_id
        return self

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the instance as a host; each test opens a new connection."""
        host = self._provider.host(instance, connect_timeout_s=connect_timeout_s)
        use = self._uses.get(instance.id)
        if use is None:
            return host
        host.mark = self._mark
        try:
            host.connect()
        except HostError as error:
            use.unusable = f"its host failed: {error}"
            raise
        if instance.id not in self._noted and self._launched_it(instance):
            try:
                note_home(host)
            except HostError as error:
                use.unusable = f"it could not be cleaned: {error}"
            self._noted.add(instance.id)
        self._hosts[instance.id] = host
        return host

    def release(self, resources: Iterable[Resource]) -> None:
        """Take hardware back from a test, as ``resources`` describe it, and remove what is not shared."""
        given = list(resources)
        shared = {each.id for each in given if self._is_its_own(each.id)}
        for each in given:
            if each.id in shared:
                self._take_back(self._uses[each.id], each)
        self._hosts.clear()
        for made in self._made_by_it():
            made.taken = made.taken and not made.ids <= shared
        if others := [each for each in given if each.id not in shared]:
            self._provider.release(others)
        self._remove_unusable()

    def end(self) -> None:
        """Remove all that is left, at the end of the scope; later tests create it again."""
        for made in self._made_by_it():
            self._stock.made.remove(made)
        if left := [each for each in self._uses if self._is_its_own(each)]:
            self._remove([self._uses.pop(each).resource for each in left])

    def _made_by_it(self) -> list[Made]:
        return [made for made in self._stock.made if made.by is self]

    def _is_its_own(self, resource_id: str) -> bool:
        """Return True for what the tests of this scope share."""
        use = self._uses.get(resource_id)
        return use is not None and use.by is self

    def _intercept(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        for each in ids_in(given[:1]) if name in _CHANGING else ():
            if each in self._uses:
                self._uses[each].unusable = _CHANGING[name]
        call = partial(getattr(self._provider, name), *args, **kwargs)
        if self._is_shared(name, given):
            return self._created(name, needs_of(args, kwargs), frozenset(ids_in(given)), call)
        answer = self._known(call())
        if name == "keep":
            self._forget({each.id for each in answer})
        return answer

    def _forget(self, kept: set[str]) -> None:
        """Stop sharing instances that stay after a failed test, and what was made for them."""
        for made in [each for each in self._stock.made if kept & (each.ids | each.on)]:
            self._stock.made.remove(made)
            for each in made.ids:
                self._uses.pop(each, None)

    def _is_shared(self, name: str, given: Sequence[Any]) -> bool:
        """Return True for a call whose answer is shared; the attachment of a test's own volume is not."""
        of_its_own = name not in _ATTACHING or all(self._is_its_own(each) for each in ids_in(given[:1]))
        return name in self._shares and of_its_own

    def _created(self, name: str, needs: Any, on: frozenset[str], call: Callable[[], Any]) -> Any:
        made = self._again(name, needs)
        if made is None:
            try:
                made = Made(name, needs, on, call(), self)
            except BaseException:
                for each in on & self._uses.keys():  # it is unknown how far the call got
                    if isinstance(self._uses[each].resource, CreatedVolume):
                        self._uses[each].unusable = f"{name} failed"
                raise
            self._stock.made.append(made)
        made.taken = True
        for each in each_of(made.answer):
            self._uses.setdefault(each.id, _Use(each, self)).resource = self._known(each)
        return self._known(made.answer)

    def _again(self, name: str, needs: Any) -> Made | None:
        """Return what was made for the same needs, as it is now; None if none is available."""
        for made in self._made_by_it():
            if not made.taken and (made.name, made.needs) == (name, needs) and self._refreshed(made):
                return made
        return None

    def _refreshed(self, made: Made) -> bool:
        """Look at its instances again; return False if one of them no longer runs."""
        try:
            refresh(made, self._provider)
        except CloudError as error:
            self._lose(made, str(error))
            return False
        for each in each_of(made.answer):
            if isinstance(each, LaunchedInstance) and each.state != "running":
                self._lose(made, f"it is {each.state!r}")
                return False
        return True

    def _lose(self, made: Made, why: str) -> None:
        for each in made.ids & self._uses.keys():
            self._uses[each].unusable = why
        self._remove_unusable()

    def _known(self, answer: T) -> T:
        """Return an answer, completed with what is known of shared hardware."""
        if isinstance(answer, tuple):
            return tuple(map(self._known, answer))  # type: ignore[return-value]
        use = self._uses.get(getattr(answer, "id", ""))
        if use is None:
            return answer
        shared, left = use.by.scope, use.resource
        if isinstance(answer, LaunchedInstance) and isinstance(left, LaunchedInstance):
            done = left.store_initialised
            return replace(answer, shared=shared, earlier_tests=use.tests, store_initialised=done)
        if isinstance(answer, CreatedVolume) and isinstance(left, CreatedVolume):
            return replace(answer, shared=shared, earlier_tests=use.tests, initialisation=left.initialisation)
        return answer

    def _take_back(self, use: _Use, left: Resource) -> None:
        use.tests += 1
        use.resource = left
        if isinstance(left, LaunchedInstance):
            use.unusable = use.unusable or left.unusable or self._cleaned(left)

    def _cleaned(self, instance: LaunchedInstance) -> str:
        """End what the test started there and remove its files. Return why that was not possible, or ""."""
        host = self._hosts.get(instance.id)
        if host is None:
            return ""  # no command has run there
        try:
            clean(host, self._mark, ours=self._launched_it(instance))
        except HostError as error:
            return f"it could not be cleaned: {error}"
        return ""

    def _launched_it(self, instance: LaunchedInstance) -> bool:
        """Return True if the instance has the tag of this run, so that nothing on it belongs to others."""
        return bool(self.run_id) and self.run_id in instance.tags.values()

    def _remove_unusable(self) -> None:
        """Remove what no test can use any more, with all that was made for it or together with it."""
        stock = self._stock.made
        taken = {each for made in stock if made.taken for each in made.ids}
        lost = {each for each, use in self._uses.items() if use.unusable} - taken
        if not lost:
            return
        for each in lost:
            use = self._uses[each]
            self._tell(f"{use.resource} is not used by another test: {use.unusable}")
        while gone := [made for made in stock if not made.taken and lost & (made.ids | made.on)]:
            for made in gone:
                stock.remove(made)
                lost |= made.ids
        self._remove([self._uses.pop(each).resource for each in lost if each in self._uses])

    def _remove(self, resources: Sequence[Resource]) -> None:
        """Remove resources. Volumes are first detached from instances that stay: an attached one cannot be removed."""
        ending = {each.id for each in resources}
        for each in resources:
            if not isinstance(each, CreatedVolume) or each.attachment is None:
                continue
            if each.attachment.instance_id not in ending:
                with suppress(CloudError):  # may be free already; the end of the session reports what stays
                    self._provider.detach(each)
        self._provider.release(resources)


def refresh(made: Made, provider: Provider) -> None:
    """Look at the instances of an answer again: a stop and start within a test may have changed their addresses."""
    now = tuple(
        provider.refresh(each) if isinstance(each, LaunchedInstance) else each
        for each in each_of(made.answer)
    )
    made.answer = now if isinstance(made.answer, tuple) else now[0]


def needs_of(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a creating call asks for, equal for equal needs."""
    return _bare([args, _named(kwargs)])


def each_of(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def ids_in(given: Any) -> Iterable[str]:
    """Yield the ids of all resources in the arguments of a call."""
    for each in given:
        if isinstance(each, list | tuple):
            yield from ids_in(each)
        elif isinstance(each, Resource):
            yield each.id


def _named(kwargs: dict[str, Any]) -> list[Any]:
    """Return keyword arguments without ``name``, which differs from test to test, and without unset ones."""
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
