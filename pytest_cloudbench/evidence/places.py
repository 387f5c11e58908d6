"""Where earlier runs are kept: folders, or buckets of S3, of which a copy is kept in the user's cache."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.baseline import NoBaseline, folders_in
from pytest_cloudbench.evidence.folder import MANIFEST, PARTIAL

S3 = "s3://"
_NEEDED = re.compile(
    rf"(?:.*/)?(?:journals/[^/]+\.jsonl|tests/[^/]+/\d+/(?:journal\.jsonl|measurement-\d+\.json)|{re.escape(MANIFEST)})\Z"
)
"""The objects of a run that a comparison reads: not the tools' own files, which are most of it."""


def evidence_at(places: Iterable[str], local: Callable[[str], Path] = Path) -> list[Path]:
    """Return the evidence folders at places, each a folder or "s3://bucket/prefix". ``local`` makes a path of a text.

    Raises NoBaseline for a place that is no folder, or that cannot be read.
    """
    return folders_in([copied(place) if place.startswith(S3) else local(place) for place in places])


def copied(place: str) -> Path:
    """Copy what is needed of the runs below "s3://bucket/prefix" and return the folder of the copy.

    Evidence never changes, so what was copied before is not copied again. Raises NoBaseline if it cannot be read.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, prefix = place.removeprefix(S3).partition("/")
    prefix = prefix.strip("/")
    if not bucket:
        raise NoBaseline(f"{place!r} names no bucket: write s3://bucket/prefix")
    folder = _cache() / bucket / prefix
    try:
        client = boto3.client("s3")
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{prefix}/" if prefix else ""
        )
        for page in pages:
            for each in page.get("Contents", ()):
                _copy(client, bucket, each, _cache() / bucket)
    except (BotoCoreError, ClientError) as error:
        raise NoBaseline(
            f"{place} cannot be read ({error}): check the name, the region and your AWS credentials"
        ) from error
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _copy(client: Any, bucket: str, found: dict[str, Any], below: Path) -> None:
    key = str(found["Key"])
    if not _NEEDED.fullmatch(key) or ".." in key.split("/"):
        return
    target = below / key
    if target.is_file() and target.stat().st_size == found["Size"]:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}{PARTIAL}")
    client.download_file(bucket, key, str(partial))
    partial.replace(target)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "pytest-cloudbench" / "s3"
