"""The control plane over boto3: launch, attach, wait, tag, journal, tear down, reap.

access = CloudAccess(region="eu-west-1")
reap(access)
with Cloud(access, run_id, Journal.open(run_id, access)) as cloud:
    instance = cloud.launch("c5.18xlarge")
"""

from .access import CloudAccess
from .cloud import Cloud
from .errors import (
    AttachmentLimit,
    CloudError,
    JournalError,
    NoCredentials,
    NoNetwork,
    NoRegion,
    NotOffered,
    PlacementRefused,
    ResourceFailed,
    TeardownFailed,
    UnknownInstanceType,
    Unreachable,
    UnusableImage,
    WaitTimeout,
    ZoneMismatch,
)
from .journal import Journal, journal_directory, new_run_id
from .launches import Launch
from .parallel import all_of, gather
from .reap import Reaped, reap
from .resources import (
    Attachment,
    CreatedSnapshot,
    CreatedVolume,
    ImageFacts,
    LaunchedInstance,
    Leftover,
    Placement,
    PlacementGroup,
)
from .teardown import TeardownReport
from .waits import Bounds

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
