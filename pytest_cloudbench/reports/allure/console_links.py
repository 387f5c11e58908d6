"""Links to the CloudWatch console: the metrics of a test's volumes and instances during the test."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
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


def volume_link(host: str, region: str, volume_id: str, began: float, ended: float) -> str:
    """Return the link to a volume's graph, from shortly before ``began`` to shortly after ``ended`` (epoch s)."""
    return _graph(host, region, "AWS/EBS", ("VolumeId", volume_id), metrics=_VOLUME, times_s=(began, ended))


def instance_link(
    host: str, region: str, instance_id: str, began: float, ended: float, *, network: bool
) -> str:
    """Return the link to an instance's graph: its network, or its EBS side."""
    metrics = _INSTANCE_NETWORK if network else _INSTANCE_STORAGE
    return _graph(
        host, region, "AWS/EC2", ("InstanceId", instance_id), metrics=metrics, times_s=(began, ended)
    )


def _graph(
    host: str,
    region: str,
    namespace: str,
    dimension: tuple[str, str],
    *,
    metrics: Sequence[tuple[str, str]],
    times_s: tuple[float, float],
) -> str:
    lines = "".join(
        f"~({''.join(f'~{_word(word)}' for word in (namespace, metric, *dimension))}~(stat~{_word(stat)}))"
        for metric, stat in metrics
    )
    start = datetime.fromtimestamp(times_s[0], timezone.utc) - _AROUND
    end = datetime.fromtimestamp(times_s[1], timezone.utc) + _AROUND
    view = (
        f"~(metrics~({lines})~view~'timeSeries~stacked~false~region~{_word(region)}~period~60"
        f"~start~{_word(_instant(start))}~end~{_word(_instant(end))})"
    )
    return f"https://{host}/cloudwatch/home?region={region}#metricsV2:graph={view}"


def _instant(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _word(text: str) -> str:
    """Return a string in the notation of the console's URL: an apostrophe, then special characters as *hh."""
    return "'" + "".join(
        char if char.isascii() and (char.isalnum() or char in "-_.") else f"*{ord(char):02x}" for char in text
    )
