"""The ids under which evidence names the classes of this package, and where each class is now.

An id outlives its class's name and module: to move or rename a class, change its place here and keep its id. The id is
the class's name, or is given as ``id=Class``. Only classes that are listed here, or were registered, are ever restored.
"""

from __future__ import annotations

import dataclasses
import importlib
from enum import Enum
from functools import cache
from typing import Any

PACKAGE = "pytest_cloudbench"

_TYPES = {
    "aws.access": "CloudAccess",
    "aws.account_settings": "AccountSettings",
    "aws.doorway": "KeyPair",
    "aws.errors": "JournalError NoCredentials NoNetwork NoRegion Unreachable UnusableImage",
    "aws.instances": "LaunchPlan",
    "aws.journal": "Intention JournalContent",
    "aws.kinds": "ResourceKind=Kind",
    "aws.ledger": "Tracked",
    "aws.plan": "PlannedInstance PlannedSet RequestedSet",
    "aws.reap": "Elsewhere Reaped",
    "aws.reap_command": "Choice",
    "aws.survey": "Found FoundRun Survey",
    "aws.terraform": "TerraformError TerraformNames",
    "aws.user_data": "HostKey=SshKey",
    "aws.waits": "Bounds Cancelled waits.Pace=Pace",
    "hosts.content": "Signature",
    "hosts.device_facts": "DeviceFacts",
    "hosts.devices": "BlockDevice",
    "hosts.directory": "HostDirectory",
    "hosts.errors": (
        "BadPath CommandFailed CommandTimedOut ConnectionDropped DeviceNotFound FilesystemError HostError "
        "HostKeyMismatch HostLost HostUnreachable JobTimedOut JobVanished LoginRefused MountPointRefused NotOurs "
        "StripeError ToolMissing UnknownHostKey WouldDestroy"
    ),
    "hosts.filesystems": "MountedFilesystem",
    "hosts.folders": "ClaimedFolder",
    "hosts.host_keys": "TrustedKey=HostKey TrustedKeys",
    "hosts.host": "Command CommandResult JobState",
    "hosts.inventory": "BadInventory InventoryHost",
    "hosts.identities": "OwnIdentities",
    "hosts.login": "EncryptedKey HostLogin",
    "hosts.network_counters": "AllowanceSnapshot NoAllowanceCounters",
    "hosts.packages": "Manager",
    "hosts.ssh_config": "OwnServer",
    "hosts.stripe_methods": "ChosenMethod",
    "hosts.stripes": "StripedDevices",
    "hosts.throttle_counters": "CountersSnapshot DeviceCounters RegionCounters",
    "hosts.ways": "Server",
    "limits.ceilings": "Ceiling MachineLimits",
    "limits.bandwidth_weighting": "UnsupportedOption",
    "limits.cost": "Cost",
    "limits.credits": "CreditBucket CreditRule EbsCredits",
    "limits.envelope": "Envelope Level",
    "limits.instance_store": "StoreRates",
    "limits.instances": "EbsCard EbsLimit InstanceLimits LocalDisk",
    "limits.limits_file": "BadLimits ProjectLimits",
    "limits.network": "NetworkEnvelope",
    "limits.network_options": "NetworkOptions",
    "limits.network_credits": "NetworkCard NetworkCredits ShapedRates",
    "limits.quantities": "Bandwidth Iops Size Throughput",
    "limits.recorded_limits": "BadRecordedLimits RecordedLimits",
    "limits.volume_rules": "RuleBroken",
    "limits.volume_types": "BurstRule FirstRead Line ServiceTime VolumeType",
    "limits.volumes": "InvalidSpec VolumeSpec",
    "limits.weather": "Weather",
    "resources.ahead": "Need",
    "resources.directory": "LeftOnHost",
    "resources.errors": (
        "AttachmentLimit CloudError ExistingHardware NotOffered PlacementRefused ResourceFailed SpotInterrupted "
        "TeardownFailed UnknownInstanceType WaitTimeout ZoneMismatch"
    ),
    "resources.facts": (
        "Answer Attachment CreatedSnapshot CreatedVolume Identity ImageFacts KeptInstance Launch LaunchedInstance "
        "Leftover Placement PlacementGroup TeardownReport"
    ),
    "resources.instance": "NoPromise",
    "resources.instance_store": "NoInstanceStore NoStoreFigure StoreLost",
    "resources.markers": (
        "BadMarker InstanceWanted=RequestedInstance PairWanted=RequestedPair RequestedFleet "
        "VolumesWanted=RequestedVolumes Wanted=RequestedHardware"
    ),
    "resources.pair": "GroupSnapshot PairSnapshot",
    "resources.requested_existing": "RequestedExisting",
    "resources.restarts": "NotRunning",
    "resources.storage_target": "StorageInUse",
    "verdicts.attribution": "Above",
    "verdicts.bottleneck": "Bottleneck Standing Suspect SuspectKind=Kind",
    "verdicts.change_point": "Fall Falls",
    "verdicts.comparison": "Comparison comparison.Side=Side",
    "verdicts.counters": "AllowanceDelta AllowancePair ThrottleDelta",
    "verdicts.drops_to": "DropLevel",
    "verdicts.level_changes": "LevelChange",
    "verdicts.little": "InFlight",
    "verdicts.load_curve": "CurveComparison SameLoad",
    "verdicts.network_levels": "NetworkLevel NetworkTarget",
    "verdicts.network_run": "NetworkRun",
    "verdicts.not_worse_than": "Earlier EarlierRun",
    "verdicts.repeats": "Repeat",
    "verdicts.sample_statistics": "Noise Steadiness TimeShare",
    "verdicts.observation": "GeneratorLoad MachineDelay",
    "verdicts.plateau": "Spread",
    "verdicts.run_view": "Bound Goal Rates Run Samples",
    "verdicts.steady": "snia.Window=Window",
    "verdicts.storage_run": "StorageRun",
    "verdicts.timeline": "Plateau Timeline",
    "verdicts.verdict": "Doubt Draft Evidence Inconclusive Outcome Reason Verdict",
    "verdicts.wording": "Named",
    "workloads.create_files.creation": "DeviceSide DeviceWrites FileCreation Marker NotOnDevice",
    "workloads.create_files.errors": (
        "BadFilesJob CreateFilesError CreationFailed CreationTimedOut FilesystemFull RecordError"
    ),
    "workloads.create_files.job": "FilesJob",
    "workloads.create_files.host_facts": "HostFacts",
    "workloads.create_files.outcome": "Origin",
    "workloads.create_files.record": "Failure Record Sample",
    "workloads.create_files.run": "create_files.Progress=Progress",
    "workloads.create_files.series": "DeviceSeries FileSeries",
    "workloads.fio.data_pass": "Initialisation Prefilled Whole",
    "workloads.errors": "StorageLost TargetError WorkloadFailed WorkloadRefused",
    "workloads.fio.errors": (
        "BadFioJob FioError FioKilled FioOutputError FioRefused FioTimedOut UnknownFioOption"
    ),
    "workloads.fio.fleet": "FleetProgress",
    "workloads.fio.job": "FioJob",
    "workloads.fio.output": "FioResult",
    "workloads.fio.progress": "fio.Progress=Progress",
    "workloads.fio.rates": "RateShare",
    "workloads.fio.run": "Ready",
    "workloads.iperf3.ends": "iperf3.Side=Side",
    "workloads.iperf3.errors": (
        "BadIperf3Job Iperf3Error Iperf3Interrupted Iperf3OutputError Iperf3Refused Iperf3TimedOut "
        "Iperf3TooOld PortBusy ServerNotUp"
    ),
    "workloads.iperf3.failures": "Stall",
    "workloads.iperf3.job": "Iperf3Job",
    "workloads.iperf3.output": "Flow Interval OtherEnd ProcessFiles ProcessOutput",
    "workloads.iperf3.plan": "Plan ProcessShare Processes RunTime",
    "workloads.iperf3.result": "EndResult Gathered",
    "workloads.iperf3.run": "NetworkProgress",
    "workloads.iperf3.streams": "Pairing",
    "workloads.measurement": "Direction DirectionSeries Latency Measurement Series",
    "workloads.network_measurement": "BothDirections NetworkMeasurement NetworkSeries RoundTrips StreamResult",
    "workloads.one_load": "LoadRunning",
    "workloads.pace": "Pace",
    "workloads.sweep.command": "Arrivals Layout",
    "workloads.sweep.curve": "Curve Knee Step",
    "workloads.sweep.errors": "BadMix BadSweep SweepBroken SweepInterrupted UnknownMix",
    "workloads.sweep.mixes": "Mix Skew",
    "workloads.sweep.plan": "StepTimes SweepPlan WorkingSet",
    "workloads.sweep.runs": "Known Load Runs Watched",
    "workloads.sweep.status": "Totals Way",
    "workloads.sweep.sweep": "SweepProgress",
    "workloads.target": "Gained",
    "workloads.tool_run": "ToolRun",
    "workloads.workload": "Workload",
}

_FIRST_IDS = {
    "create_files.TargetError": "TargetError",
    "fio.TargetError": "TargetError",
    "workloads.fio.progress:Progress": "fio.Progress",
    "workloads.create_files.progress:Progress": "create_files.Progress",
    "workloads.iperf3.ends:Side": "iperf3.Side",
    "verdicts.comparison:Side": "comparison.Side",
}
"""Version 0.1 wrote "module:Class". This maps those whose id does not follow from the class name alone."""

_registered: dict[str, type[Any]] = {}


class UnknownType(LookupError):
    """An id of a record belongs to no class of this version."""


def register(type_id: str, kind: type[Any]) -> None:
    """Let evidence hold values of a dataclass, enum or exception from outside this package.

    ``type_id`` names the class in records forever and has a dot, such as "acme.SysbenchRun". Raises ValueError for an
    id that is taken or has no dot, TypeError for another kind of class.
    """
    if not is_restorable(kind):
        raise TypeError(f"{kind.__qualname__} is not a dataclass, enum or exception: evidence cannot hold it")
    if "." not in type_id or ":" in type_id:
        raise ValueError(
            f'invalid id {type_id!r}: use the name of your package and a dot, such as "acme.Run"'
        )
    if type_id in _places() or _name(_registered.get(type_id, kind)) != _name(kind):
        raise ValueError(f"the id {type_id!r} is taken: choose another one for {kind.__qualname__}")
    _registered[type_id] = kind
    _ids()[_name(kind)] = type_id


def is_restorable(kind: Any) -> bool:
    """Return True for dataclasses, enums and exceptions."""
    # Not isinstance: in Python 3.10, tuple[int, ...] is an instance of type too.
    return issubclass(type(kind), type) and (
        dataclasses.is_dataclass(kind) or issubclass(kind, Enum | BaseException)
    )


def type_id_of(kind: type[Any]) -> str | None:
    """Return the id of a class; None if evidence cannot hold its values."""
    return _ids().get(_name(kind))


def class_of(type_id: str) -> Any:
    """Return the class of an id, also of one that version 0.1 wrote. Raises UnknownType."""
    type_id = _FIRST_IDS.get(type_id) or type_id.rpartition(":")[2]
    if type_id in _registered:
        return _registered[type_id]
    try:
        module, name = _places()[type_id]
    except KeyError:
        raise UnknownType(type_id) from None
    return getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


@cache
def _places() -> dict[str, tuple[str, str]]:
    """Return module and class by id."""
    entries = ((module, *entry.partition("=")) for module, names in _TYPES.items() for entry in names.split())
    return {found: (module, name or found) for module, found, _, name in entries}


@cache
def _ids() -> dict[str, str]:
    return {f"{PACKAGE}.{module}:{name}": found for found, (module, name) in _places().items()}
