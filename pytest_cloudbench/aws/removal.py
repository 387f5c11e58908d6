"""Finding and removing everything that carries the tag of one run, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from pytest_cloudbench.resources.errors import CloudError, WaitTimeout
from pytest_cloudbench.resources.facts import Leftover

from .clients import Clients
from .placement_groups import CREATE_PLACEMENT_GROUP, UNKNOWN
from .run import only_ours, run_filter
from .snapshots import CREATE_SNAPSHOT
from .snapshots import UNKNOWN as UNKNOWN_SNAPSHOT
from .waits import Bounds, gather, poll, retry_while

log = logging.getLogger(__name__)

_GONE_INSTANCE = frozenset({"terminated"})
_GONE_VOLUME = frozenset({"deleted"})
_BEING_DELETED = ("volume", "deleting")
_GONE_PLACEMENT_GROUP = frozenset({"deleting", "deleted"})
_BATCH = 100
# It is being detached, has just become free, or is the root volume of an instance that has just ended.
_DETACHES_ANYWAY = frozenset(
    {"IncorrectState", "InvalidAttachment.NotFound", "InvalidVolume.NotFound", "OperationNotPermitted"}
)


class RunResources:
    """The resources of the run `run_id`, by their tags in the API rather than by memory."""

    def __init__(
        self,
        clients: Clients,
        run_id: str,
        bounds: Bounds | None = None,
        *,
        announced: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        """`announced` returns the actions of the creating calls in the run's journal.

        Placement groups and snapshots are searched for only if it contains their creation, or is None: most runs
        have none, and then need no permission for them and no region that offers them.
        """
        self._clients = clients
        self._run_id = run_id
        self.bounds = bounds or Bounds()
        self._announced = announced

    def instances(self) -> Sequence[dict[str, Any]]:
        """Return the instances of the run that are not terminated."""
        reservations = self._pages("instances", "describe_instances", "Reservations")
        found = [instance for reservation in reservations for instance in reservation.get("Instances", [])]
        return [i for i in only_ours(found, self._run_id) if i["State"]["Name"] not in _GONE_INSTANCE]

    def volumes(self) -> Sequence[dict[str, Any]]:
        """Return the volumes of the run."""
        found = only_ours(self._pages("volumes", "describe_volumes", "Volumes"), self._run_id)
        return [volume for volume in found if volume["State"] not in _GONE_VOLUME]

    def groups(self) -> Sequence[dict[str, Any]]:
        """Return the security groups of the run."""
        return only_ours(
            self._pages("security groups", "describe_security_groups", "SecurityGroups"), self._run_id
        )

    def placement_groups(self) -> Sequence[dict[str, Any]]:
        """Return the placement groups of the run."""
        if self._announced is not None and CREATE_PLACEMENT_GROUP not in self._announced():
            return []
        answer = self._clients.call(
            f"list the placement groups of run {self._run_id}",
            "ec2",
            "describe_placement_groups",
            Filters=run_filter(self._run_id),
        )
        found = only_ours(answer["PlacementGroups"], self._run_id)
        return [group for group in found if group.get("State") not in _GONE_PLACEMENT_GROUP]

    def snapshots(self) -> Sequence[dict[str, Any]]:
        """Return the snapshots of the run."""
        if self._announced is not None and CREATE_SNAPSHOT not in self._announced():
            return []
        answer = self._pages("snapshots", "describe_snapshots", "Snapshots")
        return only_ours(answer, self._run_id)

    def key_pairs(self) -> Sequence[dict[str, Any]]:
        """Return the key pairs of the run."""
        answer = self._clients.call(
            f"list the key pairs of run {self._run_id}",
            "ec2",
            "describe_key_pairs",
            Filters=run_filter(self._run_id),
        )
        return only_ours(answer["KeyPairs"], self._run_id)

    def remaining(self) -> tuple[Leftover, ...]:
        """Return everything of the run that exists now, by the API."""
        return (
            *(Leftover("instance", i["InstanceId"], i["State"]["Name"]) for i in self.instances()),
            *(Leftover("volume", v["VolumeId"], v["State"]) for v in self.volumes()),
            *(Leftover("snapshot", s["SnapshotId"], s["State"]) for s in self.snapshots()),
            *(Leftover("placement group", g["GroupName"], g["State"]) for g in self.placement_groups()),
            *(Leftover("security group", g["GroupId"], "") for g in self.groups()),
            *(Leftover("key pair", k["KeyPairId"], "") for k in self.key_pairs()),
        )

    def left_over(self) -> tuple[Leftover, ...]:
        """Return what remains, after waiting up to `volume_s` for volumes that are being deleted."""
        left: tuple[Leftover, ...] = ()

        def deleted() -> bool | None:
            nonlocal left
            left = self.remaining()
            return None if any((one.kind, one.state) == _BEING_DELETED for one in left) else True

        poll(deleted, self.bounds.volume_s)
        return left

    def removal_steps(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the steps of a teardown, to be run from the last to the first, that remove all of the run."""
        return [
            ("remove the key pair", self.remove_key_pairs),
            ("remove the security group", self.remove_groups),
            ("remove the placement groups", self.remove_placement_groups),
            ("remove the snapshots", self.remove_snapshots),
            ("remove the volumes", self.remove_volumes),
            ("terminate the instances", self.remove_instances),
        ]

    def remove_instances(self) -> None:
        """Terminate all instances of the run and wait for all of them."""
        found = self.instances()
        if not found:
            return
        problems = self.terminate([i["InstanceId"] for i in found if i["State"]["Name"] != "shutting-down"])
        refused = set(problems)
        left: list[str] = []

        def all_gone() -> bool | None:
            left[:] = [i["InstanceId"] for i in self.instances() if i["InstanceId"] not in refused]
            return None if left else True

        if poll(all_gone, self.bounds.terminated_s) is None:
            raise WaitTimeout(
                f"{', '.join(left)} did not reach 'terminated' in {self.bounds.terminated_s:.0f} s"
                + "".join(f"; {problem}" for problem in problems.values())
            )
        if problems:
            raise CloudError("; ".join(problems.values()))

    def terminate(self, ids: Iterable[str]) -> dict[str, str]:
        """Terminate instances without waiting. Return the error of each refused one by its id."""
        instances = list(ids)
        problems: dict[str, str] = {}
        for start in range(0, len(instances), _BATCH):
            batch = instances[start : start + _BATCH]
            try:
                self._terminate(batch)
            except CloudError as error:
                if len(batch) == 1:
                    self._note_refusal(batch[0], error, problems)
                    continue
                # One that cannot be terminated, or no longer exists, fails the whole call: repeat it one by one.
                for instance_id in batch:
                    try:
                        self._terminate([instance_id])
                    except CloudError as single:
                        self._note_refusal(instance_id, single, problems)
        return problems

    def _terminate(self, ids: list[str]) -> None:
        self._clients.call(f"terminate {', '.join(ids)}", "ec2", "terminate_instances", InstanceIds=ids)

    @staticmethod
    def _note_refusal(instance_id: str, error: CloudError, problems: dict[str, str]) -> None:
        if error.code != "InvalidInstanceID.NotFound":
            problems[instance_id] = str(error)

    def remove_volumes(self) -> None:
        """Detach and delete all volumes of the run, side by side."""
        self.drop_volumes([volume["VolumeId"] for volume in self.volumes()])

    def drop_volumes(self, ids: Sequence[str], *, ending: Collection[str] = ()) -> None:
        """Detach and delete these volumes, side by side; raise one CloudError that names every failure.

        Volumes on instances in `ending` are not detached: they become free when the instance has terminated.
        """
        tasks = [partial(self._drop, volume_id, ending) for volume_id in ids]
        problems = [str(result) for result in gather(tasks) if isinstance(result, Exception)]
        if problems:
            raise CloudError("; ".join(problems))

    def _drop(self, volume_id: str, ending: Collection[str]) -> None:
        detaching: set[str] = set()
        state = "unknown"

        def settled() -> str | None:
            nonlocal state
            volume = self._volume(volume_id)
            if volume is None:
                return "gone"
            state = str(volume["State"])
            if state in ("available", "error"):
                return state
            for attachment in volume.get("Attachments", []):
                instance_id = attachment["InstanceId"]
                if instance_id in detaching or self._becomes_free(instance_id, ending):
                    continue
                self._detach(volume_id, instance_id)
                detaching.add(instance_id)
            return None

        bound = self.bounds.terminated_s if ending else self.bounds.volume_s
        end = poll(settled, bound)
        if end is None:
            raise WaitTimeout(f"volume {volume_id} did not become free in {bound:.0f} s; it is {state!r}")
        if end != "gone":
            self._delete_volume(volume_id)

    def _becomes_free(self, instance_id: str, ending: Collection[str]) -> bool:
        if instance_id not in ending:
            return False
        answer = self._clients.call(
            f"describe {instance_id}", "ec2", "describe_instances",
            Filters=[{"Name": "instance-id", "Values": [instance_id]}],
        )  # fmt: skip
        states = [i["State"]["Name"] for r in answer["Reservations"] for i in r["Instances"]]
        return any(state not in _GONE_INSTANCE for state in states)

    def _volume(self, volume_id: str) -> dict[str, Any] | None:
        answer = self._clients.call(
            f"describe {volume_id}", "ec2", "describe_volumes",
            Filters=[*run_filter(self._run_id), {"Name": "volume-id", "Values": [volume_id]}],
        )  # fmt: skip
        found = only_ours(answer["Volumes"], self._run_id)
        return found[0] if found and found[0]["State"] not in _GONE_VOLUME else None

    def _detach(self, volume_id: str, instance_id: str) -> None:
        try:
            self._clients.call(
                f"detach {volume_id} from {instance_id}", "ec2", "detach_volume",
                VolumeId=volume_id, InstanceId=instance_id,
            )  # fmt: skip
        except CloudError as error:
            if error.code not in _DETACHES_ANYWAY:
                raise

    def _delete_volume(self, volume_id: str) -> None:
        def delete() -> None:
            self._clients.call(f"delete volume {volume_id}", "ec2", "delete_volume", VolumeId=volume_id)

        try:
            retry_while(("VolumeInUse", "IncorrectState"), delete, self.bounds.settle_s)
        except CloudError as error:
            if error.code != "InvalidVolume.NotFound":
                raise

    def remove_snapshots(self) -> None:
        """Delete all snapshots of the run, side by side."""
        self.drop_snapshots([snapshot["SnapshotId"] for snapshot in self.snapshots()])

    def drop_snapshots(self, ids: Sequence[str]) -> None:
        """Delete these snapshots, side by side; raise one CloudError that names every failure."""
        results = gather([partial(self._delete_snapshot, snapshot_id) for snapshot_id in ids])
        problems = [str(result) for result in results if isinstance(result, Exception)]
        if problems:
            raise CloudError("; ".join(problems))

    def _delete_snapshot(self, snapshot_id: str) -> None:
        try:
            self._clients.call(f"delete {snapshot_id}", "ec2", "delete_snapshot", SnapshotId=snapshot_id)
        except CloudError as error:
            if error.code != UNKNOWN_SNAPSHOT:
                raise

    def remove_groups(self) -> None:
        """Delete the security groups of the run; retry while terminating instances hold them."""
        for group in self.groups():
            group_id = group["GroupId"]

            def delete(group_id: str = group_id) -> None:
                self._clients.call(
                    f"delete security group {group_id}", "ec2", "delete_security_group", GroupId=group_id
                )

            try:
                retry_while(("DependencyViolation", "InvalidGroup.InUse"), delete, self.bounds.group_s)
            except CloudError as error:
                if error.code != "InvalidGroup.NotFound":
                    raise

    def remove_placement_groups(self) -> None:
        """Delete the placement groups of the run; retry while terminating instances hold them."""
        self.drop_placement_groups([group["GroupName"] for group in self.placement_groups()])

    def drop_placement_groups(self, names: Sequence[str], *, bound_s: float | None = None) -> None:
        """Delete these placement groups, side by side; raise one CloudError that names every failure.

        A group cannot be deleted until its instances have terminated; wait for that up to `bound_s` seconds.
        """
        bound = self.bounds.group_s if bound_s is None else bound_s
        problems = [
            str(result)
            for result in gather([partial(self._drop_placement_group, name, bound) for name in names])
            if isinstance(result, Exception)
        ]
        if problems:
            raise CloudError("; ".join(problems))

    def _drop_placement_group(self, name: str, bound_s: float) -> None:
        def delete() -> None:
            self._clients.call(
                f"delete placement group {name}", "ec2", "delete_placement_group", GroupName=name
            )

        try:
            retry_while(("InvalidPlacementGroup.InUse",), delete, bound_s)
        except CloudError as error:
            if error.code != UNKNOWN:
                raise

    def remove_key_pairs(self) -> None:
        """Delete the key pairs of the run."""
        for pair in self.key_pairs():
            # By name, because not every EC2-compatible endpoint accepts the id.
            self._clients.call(
                f"delete key pair {pair['KeyName']}", "ec2", "delete_key_pair", KeyName=pair["KeyName"]
            )

    def _pages(self, what: str, operation: str, key: str) -> list[dict[str, Any]]:
        return self._clients.pages(
            f"list the {what} of run {self._run_id}", "ec2", operation, key, Filters=run_filter(self._run_id)
        )
