"""Values that a project's AWS account requires or offers: tags, a security group, an instance profile, a KMS key, ids.

Rules of tags: Amazon EC2 User Guide, "Tag your Amazon EC2 resources", tag restrictions (read 2026-11): at most 50 tags
per resource, keys of 1 to 128 and values of at most 256 characters; aws: is reserved, in upper and lower case.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST_KEY = 128
LONGEST_VALUE = 256
MOST_OWN_TAGS = 30
"""The other 20 of EC2's 50 are for the run itself: its id, name, times, and limits that a project states."""
_RESERVED = ("aws:", "cloudbench:")
_UUID = r"(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
_SECURITY_GROUP = r"sg-(?:[0-9a-f]{8}|[0-9a-f]{17})"
_KMS_KEY = rf"{_UUID}|alias/[A-Za-z0-9/_-]{{1,250}}|arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{{12}}:[A-Za-z0-9/_-]+"
_PROFILE = r"[A-Za-z0-9_+=,.@-]{1,128}|arn:aws[a-z-]*:iam::[0-9]{12}:[A-Za-z0-9_+=,.@/-]+"


def parse_tags(text: str) -> dict[str, str]:
    """Return the tags in a text such as "team=storage,cost-centre=4711"; {} for "".

    Raises ValueError for what EC2 or this plugin does not accept: a pair without "=", an empty, repeated, reserved or
    too long key, a too long value, control characters, or more than `MOST_OWN_TAGS` tags.
    """
    tags: dict[str, str] = {}
    for pair in filter(None, (each.strip() for each in text.replace("\n", ",").split(","))):
        key, equals, value = (each.strip() for each in pair.partition("="))
        if not key or not equals:
            raise ValueError(f"{pair!r} is not a tag: write key=value, and separate tags by commas")
        if key in tags:
            raise ValueError(f"the tag {key!r} is given twice: leave one of them out")
        _check(key, value)
        tags[key] = value
    if len(tags) > MOST_OWN_TAGS:
        raise ValueError(f"{len(tags)} tags are too many: give at most {MOST_OWN_TAGS}")
    return tags


def _check(key: str, value: str) -> None:
    if key.lower().startswith(_RESERVED) or key == "Name":
        raise ValueError(
            f"the tag {key!r} is reserved: the run sets Name and cloudbench:..., and AWS aws:...; use another key"
        )
    for what, text, longest in (("key", key, LONGEST_KEY), ("value", value, LONGEST_VALUE)):
        if len(text) > longest:
            raise ValueError(
                f"the {what} {text[:20]!r}... of a tag has {len(text)} characters: use at most {longest}"
            )
        if any(unicodedata.category(each) in ("Cc", "Cs") for each in text):
            raise ValueError(f"the {what} {text!r} of a tag has a control character: leave it out")


def parse_security_group(text: str) -> str | None:
    """Return the id of a security group, None for "". Raises ValueError for anything else."""
    return _matched(text, _SECURITY_GROUP, "an id of a security group", "sg-0123456789abcdef0")


def parse_kms_key(text: str) -> str | None:
    """Return the id, alias or ARN of a KMS key, None for "". Raises ValueError for anything else."""
    return _matched(text, _KMS_KEY, "a KMS key", "alias/cloudbench, a key id or an ARN")


def parse_instance_profile(text: str) -> str | None:
    """Return the name or ARN of an instance profile, None for "". Raises ValueError for anything else."""
    return _matched(text, _PROFILE, "an instance profile", "a name or an ARN")


def parse_instance_id(text: str) -> str | None:
    """Return the id of an instance, None for "". Raises ValueError for anything else."""
    return _matched(text, r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})", "an id of an instance", "i-0123456789abcdef0")


def parse_volume_id(text: str) -> str | None:
    """Return the id of a volume, None for "". Raises ValueError for anything else."""
    return _matched(text, r"vol-(?:[0-9a-f]{8}|[0-9a-f]{17})", "an id of a volume", "vol-0123456789abcdef0")


def _matched(text: str, expression: str, what: str, example: str) -> str | None:
    if not isinstance(text, str) or (text and not re.fullmatch(expression, text)):
        raise ValueError(f"{text!r} is not {what}: use one such as {example}")
    return text or None
