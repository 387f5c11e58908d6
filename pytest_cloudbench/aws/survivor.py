"""A process that outlives its run and removes what that left behind, if the run ended without removing it.

The lease ends instances and what they carry, wherever the run was. This also removes what no instance carries, such as
a volume between its creation and its attachment, if only the run was killed and not its machine.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence

# A call that was under way when the run was killed may be carried out later, and its result be visible later still.
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
    """Waits in a session of its own until the run dismisses it, or ends and thereby closes its input."""

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
