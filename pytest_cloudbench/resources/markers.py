"""The hardware that a test's markers request, checked as a whole before anything is created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pytest_cloudbench.limits.account_values import parse_security_group
from pytest_cloudbench.limits.argument_names import did_you_mean
from pytest_cloudbench.limits.bandwidth_weighting import DEFAULT
from pytest_cloudbench.limits.network_options import NetworkOptions
from pytest_cloudbench.limits.recorded_limits import RecordedLimits
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.facts import Command
from pytest_cloudbench.resources.requested_existing import NAMES as OF_EXISTING
from pytest_cloudbench.resources.requested_existing import RequestedExisting, take_existing

FUNCTION = "function"
SCOPES = (FUNCTION, "class", "module", "session")
"""How long hardware may live, from short to long: until the end of its test, or its class, module or session."""


class BadMarker(ValueError):
    """A marker has an argument that cannot be used; the message names it and what is possible."""


@dataclass(frozen=True)
class RequestedInstance:
    """The arguments of ``ec2_instance``.

    image: AMI id or SSM parameter. commands: run as root at the first boot. limits: EBS limits recorded from such an
    instance, which replace those of its type. or_types: launched in this order if there is no capacity for the type.
    spot: a spot instance. capacity_reservation: the id of one to launch into. tenancy: "dedicated" or "host".
    security_group: the id of a group that replaces the run's own. existing: an instance that is there already, in place
    of a launch; it must then be of ``type`` or one of ``or_types``, if these are given. scope: one of `SCOPES`; the
    tests of a scope wider than "function" share it. If it is empty, the test has its own, unless all tests share.
    """

    type: str = ""
    zone: str | None = None
    image: str | None = None
    user: str | None = None
    commands: Sequence[Command] = ()
    limits: RecordedLimits | None = None
    bandwidth_weighting: str = DEFAULT
    ena_express: bool | str = False
    or_types: Sequence[str] = ()
    spot: bool = False
    capacity_reservation: str | None = None
    tenancy: str | None = None
    security_group: str | None = None
    existing: RequestedExisting | None = None
    scope: str = ""

    @property
    def network_options(self) -> NetworkOptions:
        """The options of its network."""
        return NetworkOptions.of(self.bandwidth_weighting, self.ena_express)

    def checked(self, asked_by: str) -> RequestedInstance:
        """Return it with its lists as tuples. Raises BadMarker for arguments that cannot be used, alone or together."""
        _check_type(asked_by, self.type, "the type")
        texts = ("zone", "image", "user", "capacity_reservation")
        _check_texts(asked_by, **{name: getattr(self, name) for name in texts})
        if self.limits is not None and not isinstance(self.limits, RecordedLimits):
            raise BadMarker(
                f"{asked_by}: limits must be made by recorded_limits from pytest_cloudbench, such as "
                f"recorded_limits(ebs_iops=64_000, source='...'), not {self.limits!r}"
            )
        try:
            NetworkOptions.of(self.bandwidth_weighting, self.ena_express)
        except ValueError as error:
            raise BadMarker(f"{asked_by}: {error}") from None
        _check_capacity(asked_by, self)
        _check_place(asked_by, self)
        _check_scope(asked_by, self.scope)
        commands = _checked_commands(asked_by, self.commands)
        if self.existing is not None:
            self.existing.checked("instance", lambda problem: BadMarker(f"{asked_by}: {problem}"))
            _check_nothing_to_launch(asked_by, self)
        return replace(self, commands=commands, or_types=tuple(self.or_types))


@dataclass(frozen=True)
class RequestedPair:
    """The client and the server of ``ec2_pair``. ``cluster``: both go into one cluster placement group."""

    client: RequestedInstance
    server: RequestedInstance
    cluster: bool = False

    @classmethod
    def of(
        cls,
        client_type: str,
        server_type: str | None = None,
        *,
        placement: str | None = None,
        zones: Sequence[str] | None = None,
        asked_by: str = "@pytest.mark.ec2_pair",
        **of_both: Any,
    ) -> RequestedPair:
        """Return the request for arguments as a user gives them; ``of_both`` are arguments of ``RequestedInstance``.

        Raises BadMarker.
        """
        _check_type(asked_by, client_type, "client_type")
        if server_type is not None:
            _check_type(asked_by, server_type, "server_type")
        types = (client_type, server_type or client_type)
        cluster = _is_cluster(asked_by, placement)
        pair = _zone_pair(asked_by, zones)
        if cluster and pair is not None and pair[0] != pair[1]:
            raise BadMarker(
                f"{asked_by}: a cluster placement group lies in one availability zone, but zones are {pair[0]} and "
                f"{pair[1]}; give the same zone twice, or leave out placement='cluster'"
            )
        if of_both.get("capacity_reservation") is not None and types[0] != types[1]:
            raise BadMarker(
                f"{asked_by}: a Capacity Reservation is for instances of one type, but the pair is a {types[0]} and a "
                f"{types[1]}: use one type, or leave out capacity_reservation"
            )
        client, server = (
            RequestedInstance(type, zone, **of_both).checked(asked_by)
            for type, zone in zip(types, pair or (None, None), strict=True)
        )
        return cls(client, server, cluster)


@dataclass(frozen=True)
class RequestedFleet:
    """``count`` equal instances. ``cluster``: all go into one cluster placement group."""

    instance: RequestedInstance
    count: int
    cluster: bool = False

    @classmethod
    def of(
        cls,
        type: str,
        count: int,
        *,
        placement: str | None = None,
        asked_by: str = "ec2.fleet",
        **of_each: Any,
    ) -> RequestedFleet:
        """Return the request for arguments as a user gives them. Raises BadMarker."""
        check_count(asked_by, count)
        unknown = of_each.keys() - {each.name for each in fields(RequestedInstance)} | (
            of_each.keys() & {"existing", "scope"}
        )
        if unknown:
            raise BadMarker(f"{asked_by} has no argument {sorted(unknown)[0]}=: it takes those of ec2.launch")
        instance = RequestedInstance(type, **of_each).checked(asked_by)
        return cls(instance, count, _is_cluster(asked_by, placement))


@dataclass(frozen=True)
class RequestedVolumes:
    """The arguments of ``ebs_volume`` and ``ebs_volumes``; ``card`` is the EBS card to attach them to.

    ``scope`` is as in `RequestedInstance`.
    """

    spec: VolumeSpec
    count: int = 1
    zone: str | None = None
    card: int | None = None
    scope: str = ""


@dataclass(frozen=True)
class RequestedHardware:
    """All hardware of a test; ``instance_store`` is True if the test uses the fixture of that name.

    ``existing_volume`` is a volume that is there already, in place of ``volume``.
    """

    instance: RequestedInstance | None = None
    volume: RequestedVolumes | None = None
    volumes: RequestedVolumes | None = None
    pair: RequestedPair | None = None
    instance_store: bool = False
    existing_volume: RequestedExisting | None = None

    @property
    def instances(self) -> tuple[RequestedInstance, ...]:
        """The instances to launch: one, or those of the pair."""
        if self.pair is not None:
            return (self.pair.client, self.pair.server)
        return () if self.instance is None or self.instance.existing else (self.instance,)

    @property
    def existing(self) -> tuple[RequestedExisting, ...]:
        """The existing hardware that the markers name."""
        of_instance = self.instance.existing if self.instance is not None else None
        return tuple(each for each in (of_instance, self.existing_volume) if each is not None)

    def check(self) -> None:
        """Raise BadMarker or InvalidSpec if no cloud could offer this."""
        if self.instance_store and self.instance is None:
            raise BadMarker(
                "instance_store is the local disks of ec2_instance: add @pytest.mark.ec2_instance(type) with a type "
                "that has them, such as 'i3.8xlarge'"
            )
        if self.existing_volume is not None and self.instance is not None and not self.instance.existing:
            raise BadMarker(
                f"ebs_volume {self.existing_volume} exists already, and is never attached to an instance that the test "
                "launches: leave out the marker ec2_instance, or name the volume's own instance with id="
            )
        for name, requested in (("ebs_volume", self.volume), ("ebs_volumes", self.volumes)):
            if requested is None:
                continue
            if self.instance is not None and self.instance.existing is not None:
                raise BadMarker(
                    f"{name} would be attached to the existing instance {self.instance.existing}, which a run never "
                    "changes: name a volume that it has with @pytest.mark.ebs_volume(id='vol-...')"
                )
            requested.spec.check()
            if self.instance is None:
                of_a_pair = (
                    "; for one of a pair, ec2.create_volume(spec, ec2_pair.client)" if self.pair else ""
                )
                raise BadMarker(
                    f"{name} needs an instance to attach to: add @pytest.mark.ec2_instance(type) to the test"
                    f"{of_a_pair}"
                )
            scopes = (requested.scope or FUNCTION, self.instance.scope or FUNCTION)
            if SCOPES.index(scopes[0]) > SCOPES.index(scopes[1]):
                raise BadMarker(
                    f"{name} has scope={scopes[0]!r} and ec2_instance scope={scopes[1]!r}: a volume cannot outlive the "
                    "instance that it is attached to; give both the same scope"
                )
            zone = self.instance.zone
            if requested.zone and zone and requested.zone != zone:
                raise BadMarker(
                    f"{name} is in {requested.zone} and ec2_instance in {zone}: a volume can be attached "
                    "only in its own availability zone; leave zone= out of the volume's marker"
                )


_OF_INSTANCE = tuple(each.name for each in fields(RequestedInstance) if each.name != "existing")
_OF_LAUNCH = frozenset(_OF_INSTANCE) - {"type", "user", "limits", "or_types", "scope"}
"""Arguments that cannot apply to an existing instance."""


def read_markers(markers: Mapping[str, Any], instance_id: str | None = None) -> RequestedHardware:
    """Return the hardware that a test's markers request. `markers` has the closest marker of each name.

    `instance_id` is the existing instance of the session, for markers ec2_instance that name none. Raises BadMarker for
    a missing, unknown or unusable argument.
    """
    instance = volume = volumes = existing_volume = None
    if (mark := markers.get("ec2_instance")) is not None:
        arguments = bind("ec2_instance", mark, (*_OF_INSTANCE, *OF_EXISTING), ())
        existing = take_existing(arguments, instance_id)
        if existing is None and "type" not in arguments:
            raise BadMarker(
                "@pytest.mark.ec2_instance needs type, such as 'c5.18xlarge', or an existing instance by id=, tag= or "
                "terraform=, or for the whole session by --cloudbench-instance"
            )
        instance = RequestedInstance(**arguments, existing=existing).checked("@pytest.mark.ec2_instance")
    if (mark := markers.get("ebs_volume")) is not None:
        of_volume = ("spec", "zone", "card", "scope", "id", "terraform", "destructive")
        arguments = bind("ebs_volume", mark, of_volume, ())
        existing_volume = take_existing(arguments)
        if existing_volume is not None:
            _check_existing_volume(existing_volume, arguments)
        elif "spec" not in arguments:
            raise BadMarker(
                "@pytest.mark.ebs_volume needs spec, such as gp3(size_gib=10), or an existing volume by id= or "
                "terraform="
            )
        else:
            volume = _volumes("ebs_volume", arguments)
    if (mark := markers.get("ebs_volumes")) is not None:
        arguments = bind("ebs_volumes", mark, ("spec", "count", "zone", "card", "scope"), ("spec", "count"))
        volumes = _volumes("ebs_volumes", arguments)
    pair = None
    if (mark := markers.get("ec2_pair")) is not None:
        of_both = (name for name in _OF_INSTANCE if name not in ("type", "zone", "limits"))
        names = ("client_type", "server_type", "placement", "zones", *of_both)
        pair = RequestedPair.of(**bind("ec2_pair", mark, names, ("client_type",), by_position=2))
    return RequestedHardware(instance, volume, volumes, pair, existing_volume=existing_volume)


def bind(
    marker: str, mark: Any, names: tuple[str, ...], needed: Iterable[str], *, by_position: int = 1
) -> dict[str, Any]:
    """Return a marker's arguments by name; only the first `by_position` of them may be positional."""
    if len(mark.args) > by_position:
        raise BadMarker(
            f"@pytest.mark.{marker} takes {' and '.join(names[:by_position])} by position and the rest by name "
            f"({', '.join(names[by_position:])}); {len(mark.args)} were given by position"
        )
    bound = dict(zip(names, mark.args, strict=False))
    for name, value in mark.kwargs.items():
        if name not in names:
            meant = did_you_mean(name, names) or f"it takes {', '.join(names)}"
            raise BadMarker(f"@pytest.mark.{marker} has no argument {name}=: {meant}")
        if name in bound:
            raise BadMarker(f"@pytest.mark.{marker} was given {name} twice")
        bound[name] = value
    for name in needed:
        if name not in bound:
            raise BadMarker(f"@pytest.mark.{marker} needs {name}=")
    return bound


def _check_existing_volume(existing: RequestedExisting, others: Mapping[str, Any]) -> None:
    """Raise BadMarker for an existing volume that is not named in exactly one way, or has arguments of a new one."""
    asked_by = "@pytest.mark.ebs_volume"
    existing.checked("volume", lambda problem: BadMarker(f"{asked_by}: {problem}"))
    if chosen := [name for name in others if name != "scope"]:
        raise BadMarker(
            f"{asked_by}: {' and '.join(chosen)} cannot be chosen for a volume that exists already: leave that out"
        )


def _check_nothing_to_launch(asked_by: str, asked: RequestedInstance) -> None:
    """Raise BadMarker for launch arguments together with an existing instance."""
    given = [
        each.name
        for each in fields(asked)
        if each.name in _OF_LAUNCH and getattr(asked, each.name) != each.default
    ]
    if given:
        raise BadMarker(
            f"{asked_by}: {', '.join(given)} cannot be chosen for the instance {asked.existing}, which exists already: "
            "leave that out"
        )


def _check_place(asked_by: str, asked: RequestedInstance) -> None:
    """Raise BadMarker for an unknown tenancy, a spot instance on a Dedicated Host, or an invalid security group id."""
    if asked.tenancy not in (None, "dedicated", "host"):
        raise BadMarker(f"{asked_by}: tenancy must be 'dedicated' or 'host', not {asked.tenancy!r}")
    if asked.spot and asked.tenancy == "host":
        raise BadMarker(
            f"{asked_by}: there are no spot instances on a Dedicated Host: leave out spot or tenancy"
        )
    try:
        if asked.security_group is not None:
            parse_security_group(asked.security_group or "(empty)")
    except ValueError as error:
        raise BadMarker(f"{asked_by}: security_group: {error}") from None


def _check_capacity(asked_by: str, asked: RequestedInstance) -> None:
    """Raise BadMarker for alternatives, a market or a reservation that cannot be used, alone or together."""
    or_types = asked.or_types
    if isinstance(or_types, str) or not isinstance(or_types, Sequence):
        raise BadMarker(f"{asked_by}: or_types must be a list such as ['m6i.xlarge'], not {or_types!r}")
    for name in or_types:
        _check_type(asked_by, name, "each of or_types")
    if not isinstance(asked.spot, bool):
        raise BadMarker(f"{asked_by}: spot must be True or False, not {asked.spot!r}")
    if or_types and asked.limits is not None:
        raise BadMarker(
            f"{asked_by}: limits are those of one type, but or_types names others; state the limits of each type in "
            "the project's limits file"
        )
    if asked.capacity_reservation is not None and (or_types or asked.spot):
        other = "or_types" if or_types else "spot"
        raise BadMarker(
            f"{asked_by}: a Capacity Reservation is for On-Demand instances of one type; leave out {other} or "
            "capacity_reservation"
        )


def _check_scope(asked_by: str, scope: object) -> None:
    if scope != "" and scope not in SCOPES:
        *others, last = map(repr, SCOPES)
        raise BadMarker(f"{asked_by}: scope must be {', '.join(others)} or {last}, not {scope!r}")


def check_count(asked_by: str, count: object) -> None:
    """Raise BadMarker unless this is a whole number from 1 up."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadMarker(f"{asked_by}: count must be a whole number from 1 up, not {count!r}")


def _check_type(asked_by: str, value: object, what: str) -> None:
    if not isinstance(value, str):
        given = f"the volume {value}" if isinstance(value, VolumeSpec) else repr(value)
        raise BadMarker(f"{asked_by}: {what} must be a name such as 'c5.18xlarge', not {given}")
    if value.startswith("i-"):
        raise BadMarker(
            f"{asked_by}: {value!r} is not a type: name an existing instance by id=, or by ec2.existing(id)"
        )


def _check_texts(asked_by: str, **arguments: object) -> None:
    for name, value in arguments.items():
        if not isinstance(value, str | None):
            raise BadMarker(f"{asked_by}: {name} must be a text, not {value!r}")


def _checked_commands(asked_by: str, commands: object) -> tuple[Command, ...]:
    if isinstance(commands, str):
        commands = (commands,)
    if not isinstance(commands, Sequence) or not all(_is_command(each) for each in commands):
        raise BadMarker(
            f"{asked_by}: commands must be a list of shell lines such as ['dnf -y install gcc'], "
            f"not {commands!r}"
        )
    return tuple(commands)


def _is_cluster(asked_by: str, placement: object) -> bool:
    if placement is None:
        return False
    if placement == "cluster":
        return True
    raise BadMarker(
        f"{asked_by}: placement must be 'cluster', for both in one cluster placement group, or None for none; "
        f"not {placement!r}"
    )


def _zone_pair(asked_by: str, zones: object) -> tuple[str, str] | None:
    if zones is None:
        return None
    if isinstance(zones, list | tuple) and len(zones) == 2 and all(isinstance(z, str) and z for z in zones):
        return zones[0], zones[1]
    raise BadMarker(
        f"{asked_by}: zones must be a pair of availability zones, the client's and the server's, such as "
        f"('us-east-1a', 'us-east-1b'); not {zones!r}"
    )


def _is_command(value: object) -> bool:
    """Return True for a shell line, or a list of words."""
    if isinstance(value, str):
        return True
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def _volumes(marker: str, arguments: dict[str, Any]) -> RequestedVolumes:
    asked_by = f"@pytest.mark.{marker}"
    if marker == "ebs_volume" and str(arguments["spec"]).startswith("vol-"):
        raise BadMarker(
            f"{asked_by}: {arguments['spec']!r} is not a spec: name an existing volume by "
            f"id={arguments['spec']!r}"
        )
    if not isinstance(arguments["spec"], VolumeSpec):
        raise BadMarker(
            f"{asked_by}: the spec must be one of gp2, gp3, io1, io2, st1, sc1 from pytest_cloudbench, "
            f"such as io2(size_gib=80, iops=80_000), not {arguments['spec']!r}"
        )
    check_count(asked_by, arguments.get("count", 1))
    _check_texts(asked_by, zone=arguments.get("zone"))
    card = arguments.get("card")
    if card is not None and (isinstance(card, bool) or not isinstance(card, int) or card < 0):
        raise BadMarker(f"{asked_by}: card must be the number of an EBS card, from 0 up, not {card!r}")
    _check_scope(asked_by, arguments.get("scope", ""))
    return RequestedVolumes(**arguments)
