"""The kinds of resources that a run creates: how the API describes each, and how it reports unknown ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .clients import Clients

_NAMED = 5
"""The most ids that an error names."""


@dataclass(frozen=True)
class Kind:
    """One kind of resource.

    name: for display. describe, key: the call that lists it and the field of its answer. id_key, id_filter: the field
    of its id and the filter for it; unlike a list of ids, a filter does not fail for an id that is not visible.
    unknown: the error codes for an id that the service does not know. busy: the error codes while something still uses
    it. gone: the states in which it no longer exists. owner: the parameters of the call that leave out what other
    accounts share.
    """

    name: str
    describe: str
    key: str
    id_key: str
    id_filter: str
    unknown: frozenset[str]
    busy: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    owner: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def state(self, description: Mapping[str, Any]) -> str:
        """Return the state in a description, "" if this kind has none."""
        state = description.get("State", "")
        return str(state["Name"] if isinstance(state, Mapping) else state)

    def find(
        self, clients: Clients, filters: Sequence[Mapping[str, Any]], whose: str
    ) -> list[dict[str, Any]]:
        """Return the descriptions of all that match the filters; `whose` is for errors, such as "of run 7"."""
        found = clients.pages(
            f"list the {self.name}s {whose}", "ec2", self.describe, self.key, Filters=filters, **self.owner
        )
        if self is INSTANCE:
            return [instance for reservation in found for instance in reservation.get("Instances", [])]
        return found

    def described(self, clients: Clients, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return the descriptions of those of the `ids` that the API shows, by id."""
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        found = self.find(
            clients, [{"Name": self.id_filter, "Values": list(ids)}], f"{', '.join(ids[:_NAMED])}{more}"
        )
        return {one[self.id_key]: one for one in found}


INSTANCE = Kind(
    "instance", "describe_instances", "Reservations", "InstanceId", "instance-id",
    unknown=frozenset({"InvalidInstanceID.NotFound"}),
    busy=frozenset({"IncorrectInstanceState"}),
    gone=frozenset({"terminated"}),
)  # fmt: skip
VOLUME = Kind(
    "volume", "describe_volumes", "Volumes", "VolumeId", "volume-id",
    unknown=frozenset({"InvalidVolume.NotFound"}),
    busy=frozenset({"VolumeInUse", "IncorrectState"}),
    gone=frozenset({"deleted"}),
)  # fmt: skip
SNAPSHOT = Kind(
    "snapshot", "describe_snapshots", "Snapshots", "SnapshotId", "snapshot-id",
    unknown=frozenset({"InvalidSnapshot.NotFound"}),
    busy=frozenset({"InvalidSnapshot.InUse", "IncorrectState"}),
    owner={"OwnerIds": ["self"]},
)  # fmt: skip
PLACEMENT_GROUP = Kind(
    "placement group", "describe_placement_groups", "PlacementGroups", "GroupName", "group-name",
    unknown=frozenset({"InvalidPlacementGroup.Unknown"}),
    busy=frozenset({"InvalidPlacementGroup.InUse"}),
    gone=frozenset({"deleting", "deleted"}),
)  # fmt: skip
SECURITY_GROUP = Kind(
    "security group", "describe_security_groups", "SecurityGroups", "GroupId", "group-id",
    unknown=frozenset({"InvalidGroup.NotFound"}),
    busy=frozenset({"DependencyViolation", "InvalidGroup.InUse"}),
)  # fmt: skip
KEY_PAIR = Kind(
    "key pair", "describe_key_pairs", "KeyPairs", "KeyPairId", "key-pair-id",
    unknown=frozenset({"InvalidKeyPair.NotFound"}),
)  # fmt: skip

KINDS = (INSTANCE, VOLUME, SNAPSHOT, PLACEMENT_GROUP, SECURITY_GROUP, KEY_PAIR)

CREATED_BY: Mapping[str, Kind] = {
    "run_instances": INSTANCE,
    "create_volume": VOLUME,
    "create_snapshot": SNAPSHOT,
    "create_placement_group": PLACEMENT_GROUP,
    "create_security_group": SECURITY_GROUP,
    "import_key_pair": KEY_PAIR,
}
"""The action of a creating call -> the kind whose ids it returns."""
