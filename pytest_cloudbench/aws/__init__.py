"""The control plane over boto3: launch, attach, wait, tag, journal, tear down, reap.

access = CloudAccess(region="eu-west-1")
reap(access)
with Cloud(access, run_id, Journal.open(run_id, access)) as cloud:
    instance = cloud.launch("c5.18xlarge")
"""

from pytest_cloudbench.resources.errors import (
    AttachmentLimit,
    CloudError,
    NotOffered,
    PlacementRefused,
    ResourceFailed,
    TeardownFailed,
    UnknownInstanceType,
    WaitTimeout,
    ZoneMismatch,
)
from pytest_cloudbench.resources.facts import (
    Attachment,
    CreatedSnapshot,
    CreatedVolume,
    ImageFacts,
    Launch,
    LaunchedInstance,
    Leftover,
    Placement,
    PlacementGroup,
    TeardownReport,
)

from .access import CloudAccess
from .cloud import Cloud
from .errors import JournalError, NoCredentials, NoNetwork, NoRegion, Unreachable, UnusableImage
from .journal import Journal, journal_directory, new_run_id
from .reap import Reaped, reap
from .waits import Bounds, all_of, gather

__all__ = [
    "Attachment",
    "AttachmentLimit",
    "Bounds",
    "Cloud",
    "CloudAccess",
    "CloudError",
    "CreatedSnapshot",
    "CreatedVolume",
    "ImageFacts",
    "Journal",
    "JournalError",
    "Launch",
    "LaunchedInstance",
    "Leftover",
    "NoCredentials",
    "NoNetwork",
    "NoRegion",
    "NotOffered",
    "Placement",
    "PlacementGroup",
    "PlacementRefused",
    "Reaped",
    "ResourceFailed",
    "TeardownFailed",
    "TeardownReport",
    "UnknownInstanceType",
    "Unreachable",
    "UnusableImage",
    "WaitTimeout",
    "ZoneMismatch",
    "all_of",
    "gather",
    "journal_directory",
    "new_run_id",
    "reap",
]
