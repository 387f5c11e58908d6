"""Creating snapshots of volumes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_cloudbench.limits.volume_rules import RuleBroken
from pytest_cloudbench.limits.volumes import InvalidSpec, VolumeSpec
from pytest_cloudbench.resources.errors import ResourceFailed, WaitTimeout
from pytest_cloudbench.resources.facts import CreatedSnapshot, CreatedVolume

from .kinds import SNAPSHOT
from .run import TOKEN_TAG, Run, tags_of
from .waits import Watcher

CREATE_SNAPSHOT = "create_snapshot"
# The volume's previous snapshot was requested less than 15 s ago, perhaps by an earlier attempt of this call.
_TOO_SOON = ("SnapshotCreationPerVolumeRateExceeded",)
_SOURCE = "EC2 API Reference, CreateVolume"


def check_holds(spec: VolumeSpec, snapshot: CreatedSnapshot) -> None:
    """Raise InvalidSpec if a volume is too small for the snapshot."""
    if spec.size < snapshot.size:
        rule = "a volume is at least as large as the volume of its snapshot"
        message = f"{spec.size_gib} GiB were requested, {snapshot} needs {snapshot.size}: {rule}"
        raise InvalidSpec(spec, [RuleBroken("InvalidParameterValue", message, rule, _SOURCE, "2026-11")])


class Snapshots:
    """The calls on snapshots. Thread-safe."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clients = run.clients
        self._watcher = Watcher(partial(SNAPSHOT.described, run.clients), run.clients.pace)

    def create(self, volume: CreatedVolume, name: str) -> CreatedSnapshot:
        """Create and tag a snapshot in one call, and wait until it is complete.

        It contains what was written to the volume before the call. CreateSnapshot takes no client token: before a
        retry, a tag finds the snapshot of an earlier attempt whose answer was lost.
        """
        with self._run.journal.creating(CREATE_SNAPSHOT, f"of {volume}") as intention:
            tagged = self._run.tagged(name, "snapshot", token=intention.token)
            attempts = itertools.count()

            def ask() -> dict[str, Any]:
                if next(attempts) and (earlier := self._of_token(intention.token)) is not None:
                    return earlier
                return self._clients.call(
                    f"create a snapshot of {volume}",
                    "ec2",
                    CREATE_SNAPSHOT,
                    VolumeId=volume.id,
                    Description=f"cloudbench run {self._run.run_id}",
                    TagSpecifications=tagged,
                )

            answer = self._clients.repeat(ask, _TOO_SOON)
            intention.done([answer["SnapshotId"]])
        return self.wait_for(
            CreatedSnapshot(
                id=answer["SnapshotId"], volume_id=volume.id, size=volume.size, state=answer["State"]
            )
        )

    def wait_for(self, snapshot: CreatedSnapshot) -> CreatedSnapshot:
        """Wait until the snapshot is complete. Raises ResourceFailed, or WaitTimeout with its progress."""
        last, progress = snapshot, ""

        def look(description: Mapping[str, Any] | None) -> CreatedSnapshot | None:
            nonlocal last, progress
            if description is None:  # invisible right after its creation
                return None
            progress = description.get("Progress") or ""
            last = replace(snapshot, state=description["State"], tags=tags_of(description))
            if last.state == "error":
                said = description.get("StateMessage")
                raise ResourceFailed(f"{snapshot} failed: its state is 'error'{f': {said}' if said else ''}")
            return last if last.state == "completed" else None

        reached = self._watcher.wait(snapshot.id, look, self._run.bounds.snapshot_s)
        if reached is None:
            raise WaitTimeout(
                f"{snapshot} was not complete in {self._run.bounds.snapshot_s:.0f} s; it is {last.state!r}"
                f"{f' at {progress}' if progress else ''}"
            )
        return reached

    def _of_token(self, token: str) -> dict[str, Any] | None:
        found = SNAPSHOT.find(
            self._clients, [{"Name": f"tag:{TOKEN_TAG}", "Values": [token]}], f"of token {token}"
        )
        return next((one for one in found if tags_of(one).get(TOKEN_TAG) == token), None)
