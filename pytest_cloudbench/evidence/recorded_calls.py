"""Record what a test causes: calls of the provider, answers of its API, operations and commands on hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_cloudbench.evidence.attempt_record import INLINE_BYTES, AttemptRecord
from pytest_cloudbench.evidence.journal import utc_text
from pytest_cloudbench.evidence.plain_values import worded
from pytest_cloudbench.evidence.recorder import Recorder
from pytest_cloudbench.evidence.restorable import NotRestorable

T = TypeVar("T")

_SHOWN_CHARS = 2000
"""Maximum output recorded of a command within an operation, in characters: the operation's result is recorded too."""
_REMEMBERED = ("describe_instance_types", "describe_images")
"""API calls that are made once a session, for all tests that need the answer."""


class CallRecorder:
    """Writes calls into the record of the running test. Between tests, only API answers go into the run's.

    ``between_tests`` returns True in a thread whose work does not belong to the running test.
    """

    def __init__(self, recorder: Recorder, between_tests: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._between_tests = between_tests
        self._operating = False
        self._remembered: dict[tuple[str, str], dict[str, Any]] = {}

    @property
    def _record(self) -> AttemptRecord | None:
        return None if self._between_tests() else self._recorder.current

    def call(self, name: str, arguments: Sequence[Any], run: Callable[[], T]) -> T:
        """Run a call of the provider and record its arguments and its result, which a replay can restore."""
        return self._done("call", {"name": name, "arguments": worded(list(arguments))}, run)

    def operation(self, host: str, name: str, arguments: Sequence[Any], run: Callable[[], T]) -> T:
        """Run an operation on a host and record its result, and its commands as entries inside it."""
        if self._operating:
            return run()
        asked = {"host": host, "name": name, "arguments": worded(list(arguments))}
        self._operating = True
        try:
            return self._done("operation", asked, run)
        finally:
            self._operating = False

    def command(self, host: str, command: Any, ended: Any) -> None:
        """Record one `Command` on a host with its `CommandResult`, or the error that ended it."""
        record = self._record
        if record is None:
            return
        with self._recorder.guarded(f"a command on {host}"):
            failed = isinstance(ended, BaseException)
            entry: dict[str, Any] = {
                "host": host,
                "argv": list(command.argv),
                "sudo": command.sudo,
                "exit_code": None if failed else ended.exit_code,
                "seconds": round(time.monotonic() - command.began if failed else ended.seconds, 6),
            }
            if failed:
                entry["error"] = record.plain(ended, f"command-{record.journal.entries + 1}")
            for name in () if failed else ("stdout", "stderr"):
                text = getattr(ended, name)
                if record.is_inside and (len(text) > _SHOWN_CHARS or "\0" in text):
                    shown = "" if "\0" in text else text[:_SHOWN_CHARS]
                    entry |= {f"{name}_begins": shown, f"{name}_chars": len(text)}
                elif text:
                    entry |= record.text(name, text)
            record.add("command", entry)

    def job_started(self, host: str, job: str, argv: Sequence[str], *, sudo: bool) -> None:
        """Record that a detached job was started."""
        self._about_job("job started", {"host": host, "job": job, "argv": list(argv), "sudo": sudo})

    def job_ended(self, host: str, job: str, *, exit_code: int | None, seconds: float) -> None:
        """Record that a detached job ended."""
        self._about_job(
            "job ended", {"host": host, "job": job, "exit_code": exit_code, "seconds": round(seconds, 6)}
        )

    def answer(self, answer: Any) -> None:
        """Record one `Answer` of the service, raw except for secrets."""
        with self._recorder.guarded(f"an answer to {answer.operation}"):
            content = {
                "answered": answer.time,
                "service": answer.service,
                "operation": answer.operation,
                "asked": dict(answer.asked),
                "answer": dict(answer.answer),
            }
            if answer.operation in _REMEMBERED:
                self._remembered[answer.operation, repr(worded(content["asked"]))] = content
            record = self._record
            if record is None:
                self._recorder.note("answer", **_as_json(content))
            else:
                self._add_answer(record, content)

    def known_before(self, operation: str, asked: Mapping[str, Any]) -> None:
        """Record again an answer that an earlier test of the session received, because this test needs it."""
        record = self._record
        content = self._remembered.get((operation, repr(worded(dict(asked)))))
        if record is None or content is None or content["answered"] in record.answered:
            return
        with self._recorder.guarded(f"an answer to {operation}"):
            self._add_answer(record, content)

    def _add_answer(self, record: AttemptRecord, content: dict[str, Any]) -> None:
        import msgspec

        record.answered.add(content["answered"])
        plain = _as_json(content)
        encoded = msgspec.json.encode(plain["answer"])
        question = msgspec.json.encode([plain["operation"], plain["asked"]], order="sorted")
        if record.last_answers.get(question) == hash(encoded):
            return  # the same answer again, as in a wait
        record.last_answers[question] = hash(encoded)
        if len(encoded) > INLINE_BYTES:
            number = len(record.files) + 1
            name = f"answer-{number}-{content['operation']}.json"
            # Cleaned before it is encoded: the names of its fields say what is secret.
            cleaned = msgspec.json.encode(self._recorder.cleaner.value(plain["answer"]))
            plain["answer"] = {"file": record.keep(name, cleaned, "answer", compress=True)}
            plain["answer_bytes"] = len(encoded)
        record.add("answer", plain)

    def _about_job(self, kind: str, content: dict[str, Any]) -> None:
        record = self._record
        if record is not None:
            with self._recorder.guarded(f"a job on {content['host']}"):
                record.add(kind, content)

    def _done(self, kind: str, asked: dict[str, Any], run: Callable[[], T]) -> T:
        record = self._record
        if record is None:
            return run()
        began = time.time()
        try:
            with record.inside(asked["name"]):
                result = run()
        except BaseException as error:
            self._add(record, kind, asked, error, began)
            raise
        self._add(record, kind, asked, result, began)
        return result

    def _add(
        self, record: AttemptRecord, kind: str, asked: dict[str, Any], outcome: object, began: float
    ) -> None:
        with self._recorder.guarded(f"{asked['name']} in {record.nodeid}"):
            content = {**asked, "started": utc_text(began), "seconds": round(time.time() - began, 6)}
            key = "error" if isinstance(outcome, BaseException) else "result"
            try:
                content[key] = record.plain(outcome, f"{asked['name']}-{record.journal.entries + 1}")
            except NotRestorable as error:
                content["not_kept"] = str(error)
            record.add(kind, content)


def _as_json(value: Any) -> Any:
    """Return an answer as JSON values; other types, such as times, become strings."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
