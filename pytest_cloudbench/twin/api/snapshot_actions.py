"""The API's actions on snapshots of volumes."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult, EmptyResult

from .action_base import RegionActions
from .backend import RegionSnapshot
from .moto_loading import ACCOUNT
from .refusal import Refusal, incorrect_state, invalid_value, required, unsupported, well_formed_id

if TYPE_CHECKING:
    from .region import Region

log = logging.getLogger(__name__)

_ANSWER_AFTER_S = 20.0
"""CreateSnapshot waits up to this time for the copy, so later writes are not in the snapshot."""


class SnapshotActions(RegionActions):
    """CreateSnapshot, DescribeSnapshots, DeleteSnapshot."""

    def create_snapshot(self) -> Any:
        params, region = self.params, self.home
        volume = self.volume(params.get("VolumeId"))
        volume_id = volume.id
        if volume.backs_root:
            raise unsupported(f"{volume_id} is a root volume: this region has no snapshots of those.")
        if volume.status not in ("available", "in-use"):
            raise incorrect_state(f"The volume '{volume_id}' is in the '{volume.status}' state.")
        self.error_on_dryrun()
        snapshot = RegionSnapshot(
            volume, params.get("Description") or "", region.plane.volumes.snapshots.percent
        )
        snapshot.add_tags(self._parse_tag_specification().get("snapshot", {}))
        region.backend.snapshots[snapshot.id] = snapshot
        done = threading.Event()
        threading.Thread(
            target=_copy, args=(region, snapshot, volume_id, done), name=f"copy {snapshot.id}", daemon=True
        ).start()
        with region.aside():
            done.wait(_ANSWER_AFTER_S)
        return ActionResult(snapshot)

    def describe_snapshots(self) -> Any:
        for snapshot_id in self.params.get("SnapshotIds") or []:
            found_snapshot(self.home.backend, snapshot_id)
        snapshots = super().describe_snapshots().result["Snapshots"]
        # Every snapshot of this region may be restored by its one account, as all of its images are public.
        owners = [ACCOUNT if owner == "self" else owner for owner in self.params.get("OwnerIds") or []]
        found = [
            one
            for one in snapshots
            if not owners or {one.owner_id, getattr(one, "owner_alias", None)} & set(owners)
        ]
        return ActionResult({"Snapshots": found})

    def delete_snapshot(self) -> Any:
        region = self.home
        snapshot = found_snapshot(region.backend, self.params.get("SnapshotId"))
        if not isinstance(snapshot, RegionSnapshot):
            raise Refusal(
                "InvalidSnapshot.InUse",
                f"The snapshot {snapshot.id} is currently in use by {snapshot.from_ami}",
            )
        self.error_on_dryrun()
        region.backend.forget(snapshot)
        with region.aside():
            region.plane.volumes.snapshots.delete(snapshot.id)
        return EmptyResult()


def found_snapshot(backend: Any, snapshot_id: str | None) -> Any:
    """Return the snapshot of this id. Raises Refusal if there is none."""
    snapshot_id = well_formed_id("snap", required(snapshot_id, "snapshotId"))
    snapshot = backend.snapshots.get(snapshot_id)
    if snapshot is None:
        raise Refusal("InvalidSnapshot.NotFound", f"The snapshot '{snapshot_id}' does not exist.")
    return snapshot


def admitted_source(backend: Any, snapshot_id: str | None, size_gib: int | None) -> RegionSnapshot | None:
    """Return the snapshot from which a new volume is made; it must be complete and fit into the volume."""
    if not snapshot_id:
        return None
    snapshot = found_snapshot(backend, snapshot_id)
    if not isinstance(snapshot, RegionSnapshot):
        raise unsupported(
            f"{snapshot_id} belongs to the image {snapshot.from_ami}: this region makes no volumes from those."
        )
    if snapshot.status != "completed":
        raise incorrect_state(
            f"Snapshot is in invalid state - {snapshot.status}: {snapshot_id} is not completed."
        )
    if size_gib is not None and size_gib < snapshot.volume_size:
        raise invalid_value(
            f"The volume size {size_gib} GiB is smaller than snapshot {snapshot_id}, which needs at least "
            f"{snapshot.volume_size} GiB."
        )
    return snapshot


def _copy(region: Region, snapshot: RegionSnapshot, volume_id: str, done: threading.Event) -> None:
    status, message = "completed", None
    try:
        region.plane.volumes.take_snapshot(snapshot.id, volume_id)
    except Exception as error:
        if snapshot.id in region.backend.snapshots:  # otherwise it was deleted meanwhile
            log.exception("snapshot of %s", volume_id)
        status, message = "error", str(error)
    with region.lock:
        snapshot.status, snapshot.status_message = status, message
    done.set()
