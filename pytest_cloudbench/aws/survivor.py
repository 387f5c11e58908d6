"""A process that outlives its run and removes what the run left behind.

The leases end instances and their volumes, even if the run's machine failed. This process also removes what has no
instance, such as a volume between its creation and its attachment, if only the run was killed and not its machine.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence

# EC2 may carry out a call after its run was killed, and show its result even later.
PAUSES_S = (15.0, 60.0)
_WAIT = """read word
[ "$word" = done ] && exit
run=$1 region=$2 python=$3
shift 3
for pause; do
    sleep "$pause"
    "$python" -m pytest_cloudbench.cli reap --run "$run" --region "$region" --yes
done
"""


class Survivor:
    """A process in a session of its own; it waits until the run dismisses it, or ends and so closes its input."""

    def __init__(
        self, run_id: str, region: str, *, python: str = sys.executable, pauses_s: Sequence[float] = PAUSES_S
    ) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", _WAIT, "sh", run_id, region, python, *map(str, pauses_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End it: the run has removed what it created, or has reported what is left."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.communicate(b"done\n", timeout=5)
