"""The filters of describe actions: their names, and which described values they compare.

A filter's name follows the names of what is described: `block-device-mapping.volume-id` compares
`blockDeviceMapping.ebs.volumeId` of each item. EC2's service model documents the names; `_PATHS` has those whose value
lies elsewhere. Filters compare described items, so a client can find what it can see.
"""

from __future__ import annotations

import fnmatch
import functools
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from botocore.model import ListShape, OperationModel, Shape, StructureShape

from .refusal import Refusal, invalid_value, unsupported

# Amazon EC2 User Guide, "List and filter using the CLI and API", read 2026-11.
MAX_VALUES = 200

_TAGS = ("tag-key", "tag-value")
_MARKUP = re.compile(r"<(/?)ul>|<li>\s*<p>\s*<code>([^<]+)</code>")

# XML paths of the filters whose name does not lead to their value, or which EC2 documents in prose only. None refuses a
# filter on a value that EC2 describes for every item but this region does not.
_PATHS: Mapping[str, Mapping[str, str | None]] = {
    "DescribeAvailabilityZones": {"group-long-name": None},
    "DescribeDhcpOptions": {"value": "dhcpConfigurationSet.valueSet.value"},
    "DescribeImages": {
        "manifest-location": "imageLocation",
        "owner-alias": "imageOwnerAlias",
    },
    "DescribeInstanceStatus": {
        "attached-ebs-status.status": None,
        "instance-status.reachability": "instanceStatus.details.status",
        "system-status.reachability": "systemStatus.details.status",
    },
    "DescribeInstances": {
        **dict.fromkeys(
            (
                "boot-mode",
                "capacity-reservation-specification.capacity-reservation-preference",
                "current-instance-boot-mode",
                "maintenance-options.auto-recovery",
                "network-interface.addresses.private-dns-name",
                "private-dns-name-options.hostname-type",
                "usage-operation-update-time",
            )
        ),
        "group-id": "groupSet.groupId",
        "group-name": "groupSet.groupName",
        "launch-index": "amiLaunchIndex",
        "network-interface.attachment.instance-id": "instanceId",
        "network-interface.attachment.instance-owner-id": "ownerId",
        "network-interface.availability-zone": "placement.availabilityZone",
        "owner-id": "ownerId",
        "requester-id": "requesterId",
        "reservation-id": "reservationId",
    },
    "DescribeKeyPairs": {"fingerprint": "keyFingerprint"},
    "DescribeLaunchTemplateVersions": {
        "iam-instance-profile": "launchTemplateData.iamInstanceProfile",
        "is-default-version": "defaultVersion",
    },
    "DescribeNetworkAcls": {
        "association.association-id": "associationSet.networkAclAssociationId",
        "entry.cidr": "entrySet.cidrBlock",
        "entry.icmp.code": "entrySet.icmpTypeCode.code",
        "entry.icmp.type": "entrySet.icmpTypeCode.type",
        "entry.ipv6-cidr": "entrySet.ipv6CidrBlock",
    },
    "DescribeNetworkInterfaces": {
        "addresses.association.owner-id": "privateIpAddressesSet.association.ipOwnerId"
    },
    "DescribeSubnets": {
        "availabilityZone": "availabilityZone",
        "cidr": "cidrBlock",
        "cidrBlock": "cidrBlock",
        "defaultForAz": "defaultForAz",
    },
    "DescribeVpcs": {"cidr": "cidrBlock", "cidr-block": "cidrBlock", "isDefault": "isDefault"},
}
# Words of a name that stand for others.
_WORDS = (
    (r"^(egress\.)?ip-permission\.cidr$", r"\1ip-permission.ip-range.cidr-ip"),
    (r"^(egress\.)?ip-permission\.ipv6-cidr$", r"\1ip-permission.ipv6-range.cidr-ipv6"),
    (r"^(egress\.)?ip-permission\.protocol$", r"\1ip-permission.ip-protocol"),
    (r"^egress\.ip-permission\.", "ip-permissions-egress."),
    (r"(^|network-interface\.)addresses\.", r"\1private-ip-addresses."),
    (r"^launch\.", "launch-specification."),
)


class _Place(NamedTuple):
    """Where the value of a filter is in an item, by names in the XML.

    ``default`` is the value of a flag that the item does not show; None if it is not a flag.
    """

    path: tuple[str, ...]
    default: str | None


class Filter(NamedTuple):
    """One filter of a request: any of its values must match."""

    name: str
    values: tuple[str, ...]


class Filters:
    """The filters of one describe action."""

    def __init__(self, operation: OperationModel, item: StructureShape) -> None:
        self._action = operation.name
        self._item = item
        self._items_are_tags = item.name == "TagDescription"
        self._given = _PATHS.get(operation.name, {})
        documented = _documented_names(operation)
        self._takes_tags = bool({"tag", "tag-key"} & documented)
        self._names = (documented | set(self._given)) - {"tag", *_TAGS}
        # Filled on demand: a request uses few filters, and finding the places of all takes longer than answering it.
        self._places: dict[str, _Place | None] = {}

    @functools.cached_property
    def _leaves(self) -> list[_Leaf]:
        return list(_leaves(self._item))

    def _place(self, name: str) -> _Place | None:
        """Return where the value of a filter is; None if the region does not describe it."""
        if name not in self._places:
            if name in self._given:
                given = self._given[name]
                path = tuple(given.split(".")) if given else None
            else:
                path = _find(name, self._item.name, self._leaves)
            flag = any(leaf.path == path and leaf.is_flag for leaf in self._leaves)
            self._places[name] = None if path is None else _Place(path, "false" if flag else None)
        return self._places[name]

    @property
    def offered(self) -> list[str]:
        """The names of the filters, with ``tag:<key>``."""
        tags = ["tag:<key>"] if self._takes_tags else []
        tags += _TAGS if self._takes_tags and not self._items_are_tags else ()
        return sorted([*(name for name in self._names if self._place(name)), *tags])

    @property
    def not_offered(self) -> list[str]:
        """The filters of EC2 that this region refuses, since it does not describe what they compare."""
        return sorted(name for name in self._names if self._place(name) is None)

    def check(self, asked: Sequence[Mapping[str, Any]]) -> list[Filter]:
        """Return the filters of a request. Raises Refusal if one is unknown or has no value."""
        found: list[Filter] = []
        for one in asked:
            name, values = one.get("Name"), one.get("Values") or []
            if not name:
                raise invalid_value("The filter 'null' is invalid")
            is_tag = self._takes_tags and (name.startswith("tag:") or name in _TAGS)
            known = name in self._names
            if known and self._place(name) is None:
                raise unsupported(
                    f"{self._action} does not offer the filter '{name}' in this region. Offered: "
                    f"{', '.join(self.offered)}."
                )
            if not known and not is_tag:
                raise invalid_value(f"The filter '{name}' is invalid")
            if not values:
                raise invalid_value(f"The filter '{name}' must have at least one value.")
            found.append(Filter(name, tuple(values)))
        if sum(len(one.values) for one in found) > MAX_VALUES:
            raise Refusal(
                "FilterLimitExceeded",
                f"The maximum number of filter values specified on a single call is {MAX_VALUES}",
            )
        return found

    def passes(self, item: Any, asked: Sequence[Filter]) -> bool:
        """Return True if every filter matches the item with at least one of its values."""
        return all(
            any(_pattern(text).fullmatch(value) for value in self._values(item, name) for text in texts)
            for name, texts in asked
        )

    def _values(self, item: Any, name: str) -> list[str]:
        if name.startswith("tag:") or name in _TAGS:
            tags = [item] if self._items_are_tags else item.get("tagSet") or []
            if name in _TAGS:
                return [tag.get(name.removeprefix("tag-"), "") for tag in tags]
            return [tag.get("value", "") for tag in tags if tag.get("key") == name.removeprefix("tag:")]
        place = self._place(name)
        assert place is not None, "check() refuses what has no place"
        values = list(_texts(item, place.path))
        return values if values or place.default is None else [place.default]


@functools.lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a filter's value: * is any text, ? any character, and \\ takes the next one literally.

    fnmatch's patterns do not backtrack from one * to another, so every value is matched quickly.
    """
    parts = []
    for escaped, character in re.findall(r"\\(.)|(.)", text, re.DOTALL):
        literal = escaped or ("[" if character == "[" else "")
        parts.append(f"[{literal}]" if literal in ("*", "?", "[") else literal or character)
    return re.compile(fnmatch.translate("".join(parts)))


def _texts(value: Any, path: Sequence[str]) -> Iterator[str]:
    """Yield all texts at a path, or below it if it leads to a structure."""
    if isinstance(value, list):
        for one in value:
            yield from _texts(one, path)
    elif path:
        if isinstance(value, dict) and path[0] in value:
            yield from _texts(value[path[0]], path[1:])
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one, ())
    else:
        yield value


# --- names to places ---------------------------------------------------------------------------------------


class _Leaf(NamedTuple):
    """A value in an item. ``names`` are the ways in which a filter may name each part of its path."""

    path: tuple[str, ...]
    names: tuple[frozenset[str], ...]
    is_flag: bool


def _documented_names(operation: OperationModel) -> set[str]:
    """Return the names of an action's filters, from the list in the documentation of its parameter."""
    members = operation.input_shape.members if operation.input_shape else {}
    parameter = members.get("Filters") or members.get("Filter")
    names, depth = set(), 0
    for found in _MARKUP.finditer(parameter.documentation if parameter else ""):
        end, name = found.groups()
        if name is None:
            depth += -1 if end else 1
        elif depth == 1:  # a deeper list has the values of a filter
            names.add(html.unescape(name).strip().removesuffix(":<key>"))
    return names


def _letters(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _leaves(
    shape: Shape, path: tuple[str, ...] = (), names: tuple[frozenset[str], ...] = (), listed: bool = False
) -> Iterator[_Leaf]:
    if isinstance(shape, ListShape):
        yield from _leaves(shape.member, path, names, True)
    elif isinstance(shape, StructureShape):
        for name, member in shape.members.items():
            wire = member.serialization.get("name", name)
            words = {_letters(name), _letters(wire)}
            words |= {word.removesuffix(end) for word in words for end in ("s", "es", "set", "sset", "esset")}
            yield from _leaves(member, (*path, wire), (*names, frozenset(words - {""})), listed)
    else:
        yield _Leaf(path, names, shape.type_name == "boolean" and not listed)


def _find(name: str, item: str, leaves: Sequence[_Leaf]) -> tuple[str, ...] | None:
    """Return the path that a filter's name follows. It may begin with the name of the item, and may leave out parts."""
    for pattern, words in _WORDS:
        name = re.sub(pattern, words, name)
    target, own = _letters(name), _letters(item)
    targets = [target, target.removeprefix(own)] if target.startswith(own) else [target]
    found = [
        (left_out, number, len(leaf.path), leaf.path)
        for number, text in enumerate(targets)
        for leaf in leaves
        if (left_out := _left_out(text, leaf.names)) is not None
    ]
    return min(found)[-1] if found else None


def _left_out(text: str, names: Sequence[frozenset[str]]) -> int | None:
    """Return how many parts of a path a name leaves out; None if it leaves out the last, or names another path."""
    if not names:
        return None if text else 0
    fits = [
        more
        for name in names[0]
        if text.startswith(name) and (more := _left_out(text[len(name) :], names[1:])) is not None
    ]
    if len(names) > 1 and (more := _left_out(text, names[1:])) is not None:
        fits.append(more + 1)
    return min(fits, default=None)
