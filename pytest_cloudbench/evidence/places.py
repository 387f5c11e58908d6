"""Where earlier runs are kept: folders, or S3 buckets, which are copied to the user's cache."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.baseline import NoBaseline, folders_in
from pytest_cloudbench.evidence.folder import MANIFEST, PARTIAL

S3 = "s3://"
_NO_NAMES = frozenset({"", ".", ".."})
_JOURNAL = re.compile(r"(?:(.*)/)?journals/[^/]+\.jsonl\Z")
_NEEDED = re.compile(
    rf"{_JOURNAL.pattern}|(?:.*/)?(?:tests/[^/]+/\d+/(?:journal\.jsonl|measurement-\d+\.json)|{re.escape(MANIFEST)})\Z"
)
"""The objects of a run that a comparison reads: not the tools' own files, which are most of the data."""


def evidence_at(
    places: Iterable[str], warn: Callable[[str], object], local: Callable[[str], Path] = Path
) -> list[Path]:
    """Return the evidence folders at places, each a folder or "s3://bucket/prefix". ``local`` turns a text into a path.

    ``warn`` is called with a line about objects of a bucket that were refused. Raises NoBaseline if a place is not a
    folder, or cannot be read.
    """
    found: list[Path] = []
    for place in places:
        found += copied(place, warn) if place.startswith(S3) else folders_in([local(place)])
    return list(dict.fromkeys(found))


def copied(place: str, warn: Callable[[str], object]) -> list[Path]:
    """Copy what a comparison needs of the runs below "s3://bucket/prefix" and return the folders of the copies.

    Evidence never changes, so what was copied before is not copied again. A run that is no longer in the bucket is not
    returned. Each key becomes a path in the cache. Keys that could name a path outside it, with an empty name, "." or
    "..", are refused: ``warn`` is called with their number and the first of them.

    Raises NoBaseline if the bucket cannot be read or the copy cannot be written.
    """
    import boto3
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, prefix = place.removeprefix(S3).partition("/")
    prefix = prefix.strip("/")
    if bucket in _NO_NAMES:
        raise NoBaseline(f"{place!r} names no bucket: write s3://bucket/prefix")
    folder = _cache() / bucket / prefix
    runs, refused = set(), []
    try:
        client = boto3.client("s3")
        for key, size in _needed(client, bucket, f"{prefix}/" if prefix else ""):
            if not _NO_NAMES.isdisjoint(key.split("/")):
                refused.append(key)
                continue
            below = key[len(prefix) :].lstrip("/")
            if journal := _JOURNAL.fullmatch(below):
                runs.add(folder / (journal[1] or ""))
            _copy(client, bucket, key, size)
    except (Boto3Error, BotoCoreError, ClientError) as error:
        raise NoBaseline(
            f"{place} cannot be read ({error}): check the name, the region and your AWS credentials"
        ) from error
    except OSError as error:
        raise NoBaseline(
            f"{place} cannot be copied to {folder} ({error}): set XDG_CACHE_HOME to a folder with space that "
            "you may write to"
        ) from error
    if refused:
        objects = "1 object was" if len(refused) == 1 else f"{len(refused)} objects were"
        warn(
            f"{objects} left out of {place}: a key with an empty name, '.' or '..' could lead out of the cache, such "
            f"as {refused[0]!r}"
        )
    return sorted(runs)


def _needed(client: Any, bucket: str, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield the key and the size of each object that a comparison reads."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for each in page.get("Contents", ()):
            if _NEEDED.fullmatch(key := str(each["Key"])):
                yield key, int(each["Size"])


def _copy(client: Any, bucket: str, key: str, size: int) -> None:
    target = _cache() / bucket / key
    if target.is_file() and target.stat().st_size == size:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}{PARTIAL}")
    client.download_file(bucket, key, str(partial))
    partial.replace(target)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "pytest-cloudbench" / "s3"
