"""A stack of steps that undo what was done. All of them run, even if some fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

Step = Callable[[], None]


@dataclass(frozen=True, eq=False)
class _Step:
    label: str
    run: Step


class Teardown:
    """A stack of steps. `run` runs them from the top; a second `run` does nothing.

    A failing step is reported and the next one runs. A step that KeyboardInterrupt interrupts runs once more; the
    interrupt is raised again after the last step.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[_Step] = []
        self.problems: list[str] = []

    def push(self, label: str, step: Step) -> None:
        """Add a step on top. `label` completes "could not ..."."""
        self.push_all([(label, step)])

    def push_all(self, steps: Sequence[tuple[str, Step]]) -> None:
        """Add several steps, the last one on top. Steps that a running step adds run next."""
        with self._lock:
            self._steps.extend(_Step(label, step) for label, step in steps)

    def run(self) -> tuple[str, ...]:
        """Run all steps. Return a sentence for each that failed."""
        interrupted: KeyboardInterrupt | None = None
        while True:
            try:
                with self._lock:
                    top = self._steps[-1] if self._steps else None
                if top is None:
                    break
                interrupted = self._run_step(top.label, top.run) or interrupted
                with self._lock:
                    self._steps.remove(top)
            except KeyboardInterrupt as interrupt:
                # Between two steps: the one on top runs, perhaps again, which every step permits.
                interrupted = interrupt
        if interrupted is not None:
            raise interrupted
        return tuple(self.problems)

    def _run_step(self, label: str, step: Step) -> KeyboardInterrupt | None:
        interrupted: KeyboardInterrupt | None = None
        for last_try in (False, True):
            try:
                step()
            except KeyboardInterrupt as interrupt:
                interrupted = interrupt
                if last_try:
                    self.problems.append(f"could not {label}: interrupted twice")
            except Exception as error:
                log.debug("teardown step failed: %s", label, exc_info=True)
                self.problems.append(f"could not {label}: {error}")
                return interrupted
            else:
                return interrupted
        return interrupted
