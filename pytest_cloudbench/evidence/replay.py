"""Answer the calls of a replayed test from its record, in the order in which they were recorded."""

from __future__ import annotations

import difflib
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.evidence.plain_values import WorkloadRequest, without_unset_fields, worded
from pytest_cloudbench.evidence.pseudonyms import PSEUDONYM
from pytest_cloudbench.evidence.reader import Evidence, RecordedTest
from pytest_cloudbench.evidence.restorable import NotRestored, class_name, measurement_from, restored

_MOST_SHOWN = 5
_REMOVED = re.compile(rf"\(removed: [a-z ]+\)|{PSEUDONYM}")
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")


class NotRecorded(LookupError):
    """A replayed test asks for something that its record does not have; the message says what it has."""


class Replay:
    """An evidence folder to replay. Raises EvidenceError if the folder holds no evidence."""

    def __init__(self, root: Path) -> None:
        self.evidence = Evidence(root)
        self.cleaner = Cleaner()
        self._tests: dict[str, ReplayedTest] = {}

    def test(self, nodeid: str) -> ReplayedTest:
        """Return the record of a test's last attempt. Raises NotRecorded if there is none."""
        name = self.cleaner.text(nodeid)
        if name not in self._tests:
            attempts = self.evidence.attempts_of(name) or self._attempts_but_for_secrets(name)
            if not attempts:
                self._unknown(name)
            # Keep one test only, to save memory.
            self._tests = {name: ReplayedTest(attempts[-1], self.cleaner)}
        return self._tests[name]

    def before(self, nodeid: str) -> list[ReplayedTest]:
        """Return the records of the tests that ran before this one, in their order."""
        name = self.cleaner.text(nodeid)
        names = list(dict.fromkeys(test.nodeid for test in self.evidence.tests))
        earlier = names[: names.index(name)] if name in names else []
        return [ReplayedTest(self.evidence.attempts_of(each)[-1], self.cleaner) for each in earlier]

    def begin(self, nodeid: str) -> None:
        """Start the record of a test from its first entry."""
        self._tests.pop(self.cleaner.text(nodeid), None)

    def _attempts_but_for_secrets(self, name: str) -> Sequence[RecordedTest]:
        """Return the attempts of the one test whose recorded name differs only by what was removed from it."""
        known = {test.nodeid for test in self.evidence.tests if _fits(self.cleaner.text(test.nodeid), name)}
        return self.evidence.attempts_of(known.pop()) if len(known) == 1 else []

    def _unknown(self, name: str) -> NoReturn:
        known = list(dict.fromkeys(test.nodeid for test in self.evidence.tests))
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"; the nearest that were are {', '.join(near)}" if near else ""
        raise NotRecorded(f"{name} was not recorded in {self.evidence.root}{hint}")


class ReplayedTest:
    """One test's record. Each answer uses up an entry."""

    def __init__(self, recorded: RecordedTest, cleaner: Cleaner) -> None:
        self.recorded = recorded
        self._cleaner = cleaner
        self._queues: dict[bytes, deque[dict[str, Any]]] = {}
        self._taken: dict[bytes, int] = {}
        self._last: dict[bytes, dict[str, Any]] = {}
        self._judged: dict[str, int] = {}
        self._lenders: Callable[[], list[ReplayedTest]] = list
        self._borrowed: list[ReplayedTest] | None = None
        # Entries inside a larger one come last: a test asks for them alone only if the larger one was not recorded.
        entries = recorded.entries
        for entry in [
            *(e for e in entries if "inside" not in e),
            *(e for e in entries if "inside" in e),
        ]:
            if (asked := _asked(entry)) is not None:
                self._queues.setdefault(_key(entry["kind"], asked), deque()).append(entry)

    def borrow_from(self, lenders: Callable[[], list[ReplayedTest]]) -> None:
        """Take answers that this record lacks from the first of these records that has them."""
        self._lenders = lenders

    def workload(self, request: WorkloadRequest) -> Any:
        """Return the recorded measurement of a workload, or raise its recorded error."""
        asked = request.plain()
        entry = self._take("workload", asked)
        if "file" not in entry:
            raise NotRecorded(
                f"the result of {_shown(asked)} could not be recorded: {entry.get('not_kept', '')}"
            )
        record = self.recorded.measurement(entry["file"])
        try:
            value = measurement_from(record, self.recorded.read)
        except NotRestored as error:
            self._not_restored(asked, record["value"], error)
        return self._given(asked, value)

    def call(self, name: str, arguments: list[Any], *, repeatable: bool) -> Any:
        """Return the recorded result of a provider's call; a ``repeatable`` call may get its last result again."""
        return self._result("call", {"name": name, "arguments": worded(arguments)}, repeatable)

    def operation(self, host: str, name: str, arguments: list[Any], *, repeatable: bool) -> Any:
        """Return the recorded result of an operation on a host."""
        asked = {"host": host, "name": name, "arguments": worded(arguments)}
        return self._result("operation", asked, repeatable)

    def command(self, host: str, argv: list[str], *, sudo: bool) -> tuple[int, str, str, float]:
        """Return how a command on a host ended: exit code, standard output, standard error, seconds."""
        asked = {"host": host, "argv": argv, "sudo": sudo}
        entry = self._take("command", asked)
        if "error" in entry:
            self._given(asked, self._restored(asked, entry["error"]))
        texts = [self.recorded.text(entry, name) for name in ("stdout", "stderr")]
        if None in texts:
            raise NotRecorded(f"only the beginning of the output of {_shown(asked)} was recorded")
        return int(entry["exit_code"]), str(texts[0]), str(texts[1]), float(entry["seconds"])

    def verdict_then(self, verdict: Any) -> str | None:
        """Return the sentence of the recorded verdict on the same kind of promise, if its outcome differs."""
        kind, outcome = _promise(str(verdict.promise)), verdict.outcome.value
        self._judged[kind] = place = self._judged.get(kind, 0) + 1
        alike = [
            entry
            for entry in self.recorded.of_kind("verdict")
            if _promise(str(entry["verdict"].get("promise"))) == kind
        ]
        if place > len(alike) or alike[place - 1]["verdict"]["outcome"]["value"] == outcome:
            return None
        return str(alike[place - 1]["sentence"])

    def _result(self, kind: str, asked: dict[str, Any], repeatable: bool) -> Any:
        entry = self._take(kind, asked, repeatable)
        if "not_kept" in entry:
            raise NotRecorded(f"the result of {_shown(asked)} could not be recorded: {entry['not_kept']}")
        key = "error" if "error" in entry else "result"
        return self._given(asked, self._restored(asked, entry[key]))

    def _restored(self, asked: dict[str, Any], data: Any) -> Any:
        try:
            return restored(data, load=self.recorded.read)
        except NotRestored as error:
            self._not_restored(asked, data, error)

    def _given(self, asked: dict[str, Any], value: Any) -> Any:
        """Return the value, or raise it if it is an error."""
        if isinstance(value, Exception):
            raise value
        if isinstance(value, BaseException):
            raise NotRecorded(f"{_shown(asked)} was interrupted by {class_name(type(value))}")
        return value

    def _not_restored(self, asked: dict[str, Any], data: Any, error: NotRestored) -> NoReturn:
        if isinstance(data, Mapping) and "args" in data:
            words = " ".join(str(each) for each in data["args"])
            raise NotRecorded(f"{_shown(asked)} ended with {data.get('is')}: {words}") from error
        version = self.recorded.evidence.run.get("versions", {}).get("pytest-cloudbench", "another version")
        raise NotRecorded(
            f"{_shown(asked)} was recorded by pytest-cloudbench {version} and cannot be restored: {error}"
        ) from error

    def _take(self, kind: str, asked: dict[str, Any], repeatable: bool = False) -> dict[str, Any]:
        try:
            return self._own(kind, asked, repeatable)
        except NotRecorded:
            if self._borrowed is None:
                self._borrowed = self._lenders()
            for lender in self._borrowed:
                with suppress(NotRecorded):
                    return lender._own(kind, asked, repeatable)
            raise

    def _own(self, kind: str, asked: dict[str, Any], repeatable: bool) -> dict[str, Any]:
        asked = self._cleaner.value(asked)
        key = _key(kind, asked)
        if key not in self._queues:
            key = self._but_for_secrets(kind, asked) or key
        queue = self._queues.get(key)
        if queue:
            self._last[key] = queue.popleft()
            self._taken[key] = self._taken.get(key, 0) + 1
            return self._last[key]
        if repeatable and key in self._last:
            return self._last[key]
        raise self._missing(kind, asked, self._taken.get(key, 0))

    def _but_for_secrets(self, kind: str, asked: dict[str, Any]) -> bytes | None:
        """Return the key of a recorded entry that differs only by a secret, which this run does not know."""
        for entry in self.recorded.of_kind(kind):
            recorded = _asked(entry)
            if recorded is None:
                continue
            # An earlier version may have kept a secret that this one recognises.
            clean = self._cleaner.value(recorded)
            if _fits(without_unset_fields(clean), without_unset_fields(asked)):
                return _key(kind, recorded)
        return None

    def _missing(self, kind: str, asked: dict[str, Any], taken: int) -> NotRecorded:
        test = self.recorded
        asks = f"{test.nodeid} asks for {_shown(asked)}"
        where = f"in {test.evidence.root}"
        if taken:
            times = "once" if taken == 1 else f"{taken} times"
            nth = _ORDINALS[taken + 1] if taken + 1 < len(_ORDINALS) else f"{taken + 1}th"
            return NotRecorded(f"{asks} a {nth} time, and {where} it was recorded {times}")
        alike = [_asked(entry) or {} for entry in test.of_kind(kind) if _title(entry) == _title(asked)]
        alike = [each for number, each in enumerate(alike) if each not in alike[:number]]
        if not alike:
            return NotRecorded(f"{asks}, and nothing like it was recorded {where}")
        shown = "; ".join(_difference(asked, each) for each in alike[:_MOST_SHOWN])
        return NotRecorded(f"{asks}, which was not recorded {where}: there it was {shown}")


def _promise(promise: str) -> str:
    """Return the kind of a promise without its figures: "reaches", "capped"."""
    return promise.partition(" ")[0]


def _asked(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the request that an entry answers; None if it answers none."""
    names = {
        "workload": ("name", "target", "arguments"),
        "call": ("name", "arguments"),
        "operation": ("host", "name", "arguments"),
        "command": ("host", "argv", "sudo"),
    }.get(str(entry.get("kind")))
    return {name: entry.get(name) for name in names} if names else None


def _key(kind: str, asked: Mapping[str, Any]) -> bytes:
    import msgspec

    return kind.encode() + msgspec.json.encode(without_unset_fields(dict(asked)), order="sorted")


def _fits(recorded: Any, asked: Any) -> bool:
    """Return True if both are equal, where any text matches what was removed from the record."""
    if isinstance(recorded, str) and isinstance(asked, str) and _REMOVED.search(recorded):
        expression = ".+".join(re.escape(part) for part in _REMOVED.split(recorded))
        return re.fullmatch(expression, asked, re.DOTALL) is not None
    if isinstance(recorded, Mapping) and isinstance(asked, Mapping):
        return recorded.keys() == asked.keys() and all(_fits(recorded[key], asked[key]) for key in asked)
    if isinstance(recorded, list) and isinstance(asked, list):
        return len(recorded) == len(asked) and all(map(_fits, recorded, asked))
    return bool(recorded == asked)


def _title(asked: Mapping[str, Any]) -> str:
    """Return the workload's or operation's name, or the command's first word."""
    return str(asked["argv"][0]) if "argv" in asked else str(asked["name"])


def _shown(asked: Mapping[str, Any]) -> str:
    """Return the request as a person would write it."""
    if "argv" in asked:
        return f"`{' '.join(asked['argv'])}` on {asked['host']}"
    where = f" on {asked['host']}" if "host" in asked else ""
    arguments = asked["arguments"]
    if isinstance(arguments, Mapping):
        words = [f"{name}={value!r}" for name, value in arguments.items()]
    else:
        words = [str(value) if isinstance(value, str) else repr(value) for value in arguments]
    target = [str(asked["target"])] if "target" in asked else []
    return f"{asked['name']}({', '.join([*target, *words])}){where}"


def _difference(asked: Mapping[str, Any], recorded: Mapping[str, Any]) -> str:
    """Return the recorded request, or only the options that differ if all else is equal."""
    mine, theirs = asked.get("arguments"), recorded.get("arguments")
    rest_same = all(asked[name] == recorded.get(name) for name in asked if name != "arguments")
    if rest_same and isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        names = [name for name in {**theirs, **mine} if mine.get(name) != theirs.get(name)]
        return ", ".join(
            f"{name}={theirs[name]!r}" if name in theirs else f"without {name}=" for name in names
        )
    return _shown(recorded)
