"""The hardware that all repeats of a test use in turn: the first creates it, the others get it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_cloudbench.resources.errors import NotOffered
from pytest_cloudbench.resources.facts import Launch, LaunchedInstance, Resource
from pytest_cloudbench.resources.provider import InterceptedProvider

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_cloudbench.hosts.host import Host
    from pytest_cloudbench.resources.provider import Provider

CREATING = frozenset(
    ("attach", "attach_all", "create_placement_group", "create_volumes", "launch", "launch_many")
)
_CHANGING = frozenset(("detach", "modify_volume"))


class KeptHardware(InterceptedProvider):
    """A provider for the repeats of one test.

    Calls that create something are answered in their order by what the first repeat created. `turn` begins a repeat.
    A recording records these answers too, so that each repeat replays by itself.
    """

    def __init__(self) -> None:
        self._made: list[tuple[str, str, Any]] = []
        self._at = 0
        self._resources: dict[str, Resource] = {}
        self._provider: Provider

    def turn(self, provider: Provider, *, last: bool) -> KeptHardware:
        """Begin a repeat, whose calls reach ``provider``. What was created is removed at the end of the ``last``.

        A ``provider`` that ``has_own_hardware`` for this repeat, such as its record, creates all.
        """
        self._provider, self._last, self._at = provider, last, 0
        if getattr(provider, "has_own_hardware", False):
            self._made.clear()
        self.label, self.region = provider.label, provider.region
        self.endpoint, self.run_id = provider.endpoint, provider.run_id
        return self

    def host(self, instance: LaunchedInstance, *, connect_timeout_s: float) -> Host:
        """Return the instance as a host; each repeat opens a new connection."""
        return self._provider.host(instance, connect_timeout_s=connect_timeout_s)

    def release(self, resources: Iterable[Resource]) -> None:
        """Remove everything at the end of the last repeat, and nothing before; if it is run again, it creates all."""
        self._resources |= {_words(each): each for each in resources}
        if self._last:
            self._made.clear()
            removed, self._resources = self._resources, {}
            self._provider.release(list(removed.values()))

    def _intercept(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        if name in _CHANGING:
            raise NotOffered(
                f"{name} changes the hardware that all repeats of this test use: write on='fresh' in its marker "
                "cloudbench_repeats"
            )
        call = getattr(self._provider, name)
        if name not in CREATING:
            return call(*args, **kwargs)
        asked = _asked(args)
        if self._at == len(self._made):
            made = call(*args, **kwargs)
            self._made.append((name, asked, made))
            self._at += 1
            return made
        made_by, made_for, made = self._made[self._at]
        if (made_by, made_for) != (name, asked):
            raise NotOffered(
                f"this repeat asks for other hardware than the first one ({name} {asked}, not {made_by} {made_for}): "
                "write on='fresh' in its marker cloudbench_repeats"
            )
        self._at += 1
        # A stop and start within the test may have changed their addresses.
        refreshed = tuple(
            self._provider.refresh(each) if isinstance(each, LaunchedInstance) else each
            for each in _each(made)
        )
        return refreshed if isinstance(made, tuple) else refreshed[0]


def _each(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def _asked(args: tuple[Any, ...]) -> str:
    """Return what a call asks for in words; keywords have names for people, which differ from repeat to repeat."""
    return ", ".join(
        _words(each) for arg in args for each in (arg if isinstance(arg, list | tuple) else [arg])
    )


def _words(each: object) -> str:
    return each.type if isinstance(each, Launch) else str(getattr(each, "id", each))
