"""Creating snapshots of volumes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_cloudbench.limits.volume_rules import RuleBroken
from pytest_cloudbench.limits.volumes import InvalidSpec, VolumeSpec
from pytest_cloudbench.resources.errors import CloudError, ResourceFailed, WaitTimeout
from pytest_cloudbench.resources.facts import CreatedSnapshot, CreatedVolume

from .run import Run, tags_of
from .waits import poll

CREATE_SNAPSHOT = "create_snapshot"
UNKNOWN = "InvalidSnapshot.NotFound"
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

    def create(self, volume: CreatedVolume, name: str) -> CreatedSnapshot:
        """Create and tag a snapshot in one call, and wait until it is complete.

        It contains what has been written to the volume before the call.
        """
        with self._run.journal.creating(CREATE_SNAPSHOT, f"of {volume}") as intention:
            answer = self._clients.call(
                f"create a snapshot of {volume}",
                "ec2",
                CREATE_SNAPSHOT,
                VolumeId=volume.id,
                Description=f"cloudbench run {self._run.run_id}",
                TagSpecifications=self._run.tagged(name, "snapshot"),
            )
            intention.done([answer["SnapshotId"]])
        return self.wait_for(
            CreatedSnapshot(
                id=answer["SnapshotId"], volume_id=volume.id, size=volume.size, state=answer["State"]
            )
        )

    def wait_for(self, snapshot: CreatedSnapshot) -> CreatedSnapshot:
        """Wait until the snapshot is complete. Raises ResourceFailed, or WaitTimeout with its progress."""
        last, progress = snapshot, ""

        def look() -> CreatedSnapshot | None:
            nonlocal last, progress
            description = self._describe(snapshot.id)
            if description is None:  # invisible right after its creation
                return None
            progress = description.get("Progress") or ""
            last = replace(snapshot, state=description["State"], tags=tags_of(description))
            if last.state == "error":
                said = description.get("StateMessage")
                raise ResourceFailed(f"{snapshot} failed: its state is 'error'{f': {said}' if said else ''}")
            return last if last.state == "completed" else None

        reached = poll(look, self._run.bounds.snapshot_s)
        if reached is None:
            raise WaitTimeout(
                f"{snapshot} was not complete in {self._run.bounds.snapshot_s:.0f} s; it is {last.state!r}"
                f"{f' at {progress}' if progress else ''}"
            )
        return reached

    def _describe(self, snapshot_id: str) -> dict[str, Any] | None:
        try:
            found = self._clients.call(
                f"describe {snapshot_id}", "ec2", "describe_snapshots", SnapshotIds=[snapshot_id]
            )["Snapshots"]
        except CloudError as error:
            if error.code == UNKNOWN:
                return None
            raise
        return found[0] if found else None
