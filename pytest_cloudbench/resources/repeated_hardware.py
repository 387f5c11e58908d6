"""Hardware that the repeats of one test use in turn: the first creates it, the others reuse it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_cloudbench.resources.errors import NotOffered
from pytest_cloudbench.resources.facts import Launch, Resource
from pytest_cloudbench.resources.provider import InterceptedProvider, Provider
from pytest_cloudbench.resources.shared_hardware import CREATING, Made, each_of, needs_of, refresh

_REFUSED = ("detach", "modify_volume")
_FRESH = "write on='fresh' in its marker cloudbench_repeats"


class RepeatedHardware(InterceptedProvider):
    """A provider whose hardware the repeats of one test share. They must request the same hardware in the same order.

    ``turn`` begins a repeat. The recording provider calls this one and records its answers, so each repeat can be
    replayed alone.
    """

    def __init__(self) -> None:
        self._made: list[Made] = []
        self._created: dict[str, Resource] = {}
        self._provider: Provider
        self._last = False

    def turn(self, provider: Provider, *, last: bool) -> RepeatedHardware:
        """Begin a repeat, whose calls reach ``provider``. After the ``last`` one everything is removed.

        A ``provider`` with ``has_own_hardware``, such as the record of this repeat, creates everything.
        """
        self._provider, self._last = provider, last
        for made in self._made:
            made.taken = False
        if getattr(provider, "has_own_hardware", False):
            self._forget()
        self.label, self.region = provider.label, provider.region
        self.endpoint, self.run_id = provider.endpoint, provider.run_id
        return self

    def release(self, resources: Iterable[Resource]) -> None:
        """Keep what a repeat created for the next one; remove everything after the last."""
        self._created |= {each.id: each for each in resources}
        if self._last and (created := list(self._created.values())):
            self._forget()
            self._provider.release(created)

    def _forget(self) -> None:
        self._made.clear()
        self._created.clear()

    def _intercept(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        if name in _REFUSED:
            raise NotOffered(f"{name} changes the hardware that all repeats of this test use: {_FRESH}")
        if name not in CREATING:
            return getattr(self._provider, name)(*args, **kwargs)
        needs = needs_of(args, kwargs)
        made = next((each for each in self._made if not each.taken), None)
        if made is None:
            made = Made(name, needs, frozenset(), getattr(self._provider, name)(*args, **kwargs), self)
            self._made.append(made)
        elif (made.name, made.needs) != (name, needs):
            raise NotOffered(
                f"this repeat asks for other hardware than the first one ({name} {_words(needs)}, not {made.name} "
                f"{_words(made.needs)}): {_FRESH}"
            )
        else:
            refresh(made, self._provider)
            made.taken = True
        self._created |= {each.id: each for each in each_of(made.answer)}
        return made.answer


def _words(needs: Any) -> str:
    """Return the positional arguments of a call in words."""
    return ", ".join(
        each.type if isinstance(each, Launch) else str(each)
        for arg in needs[0]
        for each in (arg if isinstance(arg, tuple) else [arg])
    )
