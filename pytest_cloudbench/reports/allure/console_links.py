"""Links to the CloudWatch console: the metrics of a test's volumes and instances during the test."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit

_DOMAINS = {
    "amazonaws.com.cn": "console.amazonaws.cn",
    "amazonaws.com": "console.aws.amazon.com",
}
_VOLUME = (
    ("VolumeReadOps", "Sum"),
    ("VolumeWriteOps", "Sum"),
    ("VolumeReadBytes", "Sum"),
    ("VolumeWriteBytes", "Sum"),
    ("VolumeQueueLength", "Average"),
    ("VolumeIOPSExceededCheck", "Maximum"),
    ("VolumeThroughputExceededCheck", "Maximum"),
)
_INSTANCE_STORAGE = (
    ("EBSReadOps", "Sum"),
    ("EBSWriteOps", "Sum"),
    ("EBSIOBalance%", "Minimum"),
    ("EBSByteBalance%", "Minimum"),
    ("InstanceEBSIOPSExceededCheck", "Maximum"),
    ("InstanceEBSThroughputExceededCheck", "Maximum"),
)
_INSTANCE_NETWORK = (("NetworkIn", "Sum"), ("NetworkOut", "Sum"))
_AROUND = timedelta(minutes=5)
"""Metrics are sums per minute and arrive minutes late, so the view extends beyond the test."""


def console_host(endpoint: str, region: str) -> str | None:
    """Return the console's host name for an EC2 endpoint; None if the endpoint is not AWS's own."""
    host = urlsplit(endpoint).hostname or ""
    if region.startswith("us-gov-") and host.endswith(".amazonaws.com"):
        return "console.amazonaws-us-gov.com"
    for domain, console in _DOMAINS.items():
        if host.endswith(f".{domain}"):
            return f"{region}.{console}"
    return None


def console_links(
    instance: Any, endpoint: str, region: str, times_s: tuple[float, float], *, network: bool
) -> dict[str, str]:
    """Return links to the graphs of an instance (its network, or its EBS side) and of its volumes, by their names.

    ``times_s`` are the test's begin and end in seconds since the epoch; the graphs extend a few minutes beyond both.
    """
    host = console_host(endpoint, region)
    if host is None:
        return {}
    start = _instant(datetime.fromtimestamp(times_s[0], timezone.utc) - _AROUND)
    end = _instant(datetime.fromtimestamp(times_s[1], timezone.utc) + _AROUND)

    def graph(metrics: Sequence[tuple[str, str]], *dimension: str) -> str:
        lines = "".join(
            f"~({''.join(f'~{_word(word)}' for word in (dimension[0], metric, *dimension[1:]))}~(stat~{_word(stat)}))"
            for metric, stat in metrics
        )
        view = (
            f"~(metrics~({lines})~view~'timeSeries~stacked~false~region~{_word(region)}~period~60"
            f"~start~{_word(start)}~end~{_word(end)})"
        )
        return f"https://{host}/cloudwatch/home?region={region}#metricsV2:graph={view}"

    metrics = _INSTANCE_NETWORK if network else _INSTANCE_STORAGE
    links = {f"{instance.type} {instance.id}": graph(metrics, "AWS/EC2", "InstanceId", instance.id)}
    volumes = {volume.label: graph(_VOLUME, "AWS/EBS", "VolumeId", volume.id) for volume in instance.volumes}
    return {f"CloudWatch: {name}": url for name, url in {**links, **volumes}.items()}


def _instant(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _word(text: str) -> str:
    """Return a string in the notation of the console's URL: an apostrophe, then special characters as *hh."""
    return "'" + "".join(
        char if char.isascii() and (char.isalnum() or char in "-_.") else f"*{ord(char):02x}" for char in text
    )
