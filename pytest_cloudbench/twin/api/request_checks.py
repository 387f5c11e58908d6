"""Checks of every EC2 request before its action: readable values, known parameters, and tags within limits.

Import only after `moto_loading.load_moto`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.model import OperationModel
from moto.core.parse import EC2QueryParser

from .refusal import Refusal, invalid_combination, invalid_value

# botocore's service model (1.44.8), in the text of a tag's key and value.
MAX_KEY_LENGTH = 128
MAX_VALUE_LENGTH = 256

# What the service calls a parameter in its messages.
_SERVICES_NAMES = {"Resources": "resourceIdSet"}
# Characters that XML 1.0 excludes: an answer with one would be unreadable.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Parameters of the protocol and of signatures in the query, which no action has.
_OF_THE_PROTOCOL = re.compile(r"Action|Version|AWSAccessKeyId|Signature.*|Timestamp|X-Amz-.*")

_CONVERTED = ("double", "float", "integer", "long", "timestamp")


class RequestParser(EC2QueryParser):  # type: ignore[misc]  # moto is not typed here
    """moto's parser that refuses values of the wrong type."""

    def _parse_shape(self, shape: Any, node: Any, prefix: str = "") -> Any:
        kind = shape.type_name
        try:
            if kind != "boolean" or str(node.get(prefix, "true")).lower() in ("true", "false"):
                return super()._parse_shape(shape, node, prefix)
        except (ValueError, OverflowError):
            if kind not in _CONVERTED:
                raise
        raise invalid_value(
            f"Value ({node.get(prefix)}) for parameter {prefix} is invalid. Expected: a value of type {kind}."
        )


@functools.cache
def _parameters(operation: OperationModel) -> frozenset[str]:
    parser, shape = RequestParser(operation), operation.input_shape
    members = shape.members.items() if shape else ()
    return frozenset(parser._get_serialized_name(member, name) for name, member in members)


def check_form(form: Mapping[str, str], operation: OperationModel) -> None:
    """Refuse a request with a parameter that the action does not have, or with a value that no answer could show."""
    known = _parameters(operation)
    for name, value in form.items():
        if name.partition(".")[0] not in known and not _OF_THE_PROTOCOL.fullmatch(name):
            raise Refusal("UnknownParameter", f"The parameter {name} is not recognized")
        if found := _NOT_XML.search(name + value):
            raise invalid_value(
                f"Value ({_NOT_XML.sub('?', value)}) for parameter {_NOT_XML.sub('?', name)} is invalid. It contains "
                f"the character U+{ord(found[0]):04X}, which is not allowed."
            )


def check_required(params: Mapping[str, Any], operation: OperationModel) -> None:
    """Refuse a request that lacks a parameter that its action requires."""
    shape = operation.input_shape
    for name in shape.required_members if shape else ():
        if params.get(name) in (None, "", []):
            if name == "InstanceIds":
                raise invalid_combination("No instances specified")
            raise Refusal(
                "MissingParameter",
                f"The request must contain the parameter {_SERVICES_NAMES.get(name, name)}",
            )


def check_tags(params: Mapping[str, Any]) -> None:
    """Refuse tags that no resource may have: with reserved, empty, duplicate or too long keys, or too long values."""
    specifications = params.get("TagSpecifications") or params.get("TagSpecification") or []
    lists = [params.get("Tags") or [], *(one.get("Tags") or [] for one in specifications)]
    for tags in lists:
        _check_tag_list(tags)


def _check_tag_list(tags: Iterable[Mapping[str, str]]) -> None:
    seen = set()
    for tag in tags:
        key, value = tag.get("Key") or "", tag.get("Value") or ""
        if key.lower().startswith("aws:"):
            raise invalid_value(
                f"Value ({key}) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal "
                "use."
            )
        if not key:
            raise invalid_value("Tag key cannot be empty.")
        if len(key) > MAX_KEY_LENGTH:
            raise invalid_value(
                f"Tag key exceeds the maximum length of {MAX_KEY_LENGTH} characters: '{key}' has {len(key)}."
            )
        if len(value) > MAX_VALUE_LENGTH:
            raise invalid_value(
                f"Tag value exceeds the maximum length of {MAX_VALUE_LENGTH} characters: that of '{key}' has "
                f"{len(value)}."
            )
        if key in seen:
            raise invalid_value(f"Duplicate tag key '{key}' specified.")
        seen.add(key)
