"""What the service answered, kept for the evidence: the last answer to each question, every creating call."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

# Never kept, wherever they appear: private keys come in KeyMaterial, host keys go out in UserData.
_SECRET_FIELDS = frozenset({"KeyMaterial", "UserData", "ResponseMetadata"})


@dataclass(frozen=True)
class Answer:
    """One call and its answer, without secrets. `time` is UTC, ISO 8601."""

    time: str
    service: str
    operation: str
    asked: Mapping[str, Any]
    answer: Mapping[str, Any]


def without_secrets(value: Any) -> Any:
    """A copy of a request or an answer without the fields that hold secrets."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if key not in _SECRET_FIELDS}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


class Answers:
    """Thread-safe keeper of answers. Repeated identical Describe calls keep only the last answer.

    ``listener``, where it is not None, is told of every answer as it comes, in the thread that asked.
    """

    listener: Callable[[Answer], None] | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Answer] = {}
        self._count = 0

    def keep(self, service: str, operation: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Keep one answer."""
        question = without_secrets(asked)
        entry = Answer(
            time=_now(),
            service=service,
            operation=operation,
            asked=question,
            answer=without_secrets(answer),
        )
        with self._lock:
            self._count += 1
            key = f"{service} {operation} {json.dumps(question, sort_keys=True, default=str)}"
            if not operation.startswith(("describe_", "get_")):
                key += f" {self._count}"
            self._kept.pop(key, None)
            self._kept[key] = entry
        self._tell(entry)

    def refused(
        self, service: str, operation: str, asked: Mapping[str, Any], error: Mapping[str, Any]
    ) -> None:
        """Tell of a call that the service answered with an error, ``{"Code": ..., "Message": ...}``."""
        self._tell(
            Answer(_now(), service, operation, without_secrets(asked), {"Error": without_secrets(error)})
        )

    def _tell(self, answer: Answer) -> None:
        if self.listener is not None:
            self.listener(answer)

    def all(self) -> tuple[Answer, ...]:
        """What was kept, in the order of the last answers."""
        with self._lock:
            return tuple(self._kept.values())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
