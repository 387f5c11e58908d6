"""Describe actions as EC2 answers them: all items that pass the filters, in pages.

moto answers with everything that a request names. Filters and pages are applied to the described answer, so they work
alike for every action. Import only after `moto_loading.load_moto`.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from botocore.model import ListShape, OperationModel, StructureShape
from moto.core.utils import get_pagination_model, get_service_model

from .descriptions import Described
from .filters import Filter, Filters
from .refusal import Refusal, invalid_combination, invalid_value

_DEFAULT_PAGE = 1000
# botocore's service model (1.44.8), in the text of MaxResults; this project chose those of DescribeImages.
_PAGE_SIZES = {
    "DescribeImages": (1, 1000),
    "DescribeLaunchTemplateVersions": (1, 200),
    "DescribeVolumesModifications": (1, 500),
}
_USUAL_PAGE_SIZES = (5, 1000)
_SETS = {"InstanceIds": "instancesSet"}  # what the service calls a parameter in its messages
_NAMING = ("key", "instanceType", "location", "versionNumber")  # of items without an id of their own
_DEFAULT_PAGES = {
    "DescribeInstanceTypes": 100,
    "DescribeLaunchTemplates": 200,
    "DescribeLaunchTemplateVersions": 200,
}


class _Item(NamedTuple):
    """An item of an answer, with what encloses it: a reservation around an instance."""

    value: Described
    around: Described | None

    @property
    def visible(self) -> Any:
        """The item as filters see it."""
        return self.value if self.around is None else {**self.around, **self.value}

    @property
    def identity(self) -> str:
        """A digest of the item's names, which do not change."""
        names = [
            (name, text)
            for name, text in sorted(self.value.items())
            if isinstance(text, str) and (name.endswith("Id") or name in _NAMING)
        ]
        return hashlib.blake2b(repr(names).encode(), digest_size=8).hexdigest()


class _Start(NamedTuple):
    """The first item of a page: its number, and its identity, since items before it may be removed meanwhile."""

    number: int
    identity: str

    def among(self, items: Sequence[_Item]) -> int:
        """Return the current number of this item, or its former number if it was removed."""
        if not self.identity or (self.number < len(items) and items[self.number].identity == self.identity):
            return self.number
        found = (number for number, item in enumerate(items) if item.identity == self.identity)
        return next(found, self.number)


class Query(NamedTuple):
    """The filters and the page that a request specifies."""

    filters: Sequence[Filter]
    size: int = _DEFAULT_PAGE
    start: _Start = _Start(0, "")
    fingerprint: str = ""


class Listing:
    """The filters and pages of one action."""

    def __init__(self, operation: OperationModel, output: StructureShape, listed: str) -> None:
        """``listed`` is the member of the output that has the items."""
        self._action = operation.name
        self._members = operation.input_shape.members if operation.input_shape else {}
        shape: Any = output.members[listed]
        self._wire_name: str = shape.serialization.get("name", listed)
        item = shape.member
        self._inner: str | None = None
        if self._action == "DescribeInstances":
            instances = item.members["Instances"]
            self._inner, item = instances.serialization["name"], instances.member
        takes_filters = bool({"Filters", "Filter"} & set(self._members)) and isinstance(item, StructureShape)
        self.filters = Filters(operation, item) if takes_filters else None
        self.has_pages = {"MaxResults", "NextToken"} <= set(self._members) and "NextToken" in output.members

    def read(self, params: dict[str, Any]) -> Query:
        """Remove filters and page from a request's parameters and return them. Raises Refusal if they are invalid."""
        asked = params.pop("Filters", None) or params.pop("Filter", None) or []
        filters = self.filters.check(asked) if self.filters else []
        if not self.has_pages:
            return Query(filters)
        size, token = params.pop("MaxResults", None), params.pop("NextToken", None)
        fingerprint = _fingerprint(self._action, params, filters)
        start = _read_token(token, fingerprint) if token else _Start(0, "")
        return Query(filters, self._admitted_size(size, params), start, fingerprint)

    def _admitted_size(self, size: int | None, params: Mapping[str, Any]) -> int:
        least, most = _PAGE_SIZES.get(self._action, _USUAL_PAGE_SIZES)
        if size is None:
            return _DEFAULT_PAGES.get(self._action, _DEFAULT_PAGE)
        parameter = self._members["MaxResults"]
        least, most = parameter.metadata.get("min", least), parameter.metadata.get("max", most)
        if size < least:
            raise invalid_value(
                f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value greater than or equal to "
                f"{least}."
            )
        for name, value in params.items():
            if (
                value
                and name.endswith("Ids")
                and "IDs parameter in the same request" in parameter.documentation
            ):
                raise invalid_combination(
                    f"The parameter {_SETS.get(name, name)} cannot be used with the parameter maxResults"
                )
        return int(min(size, most))  # a larger size is not an error

    def answer(self, described: Described, query: Query) -> Described:
        """Return the items of an answer that pass the filters and are on the requested page."""
        found = [
            item
            for item in self._items(described)
            if self.filters is None or self.filters.passes(item.visible, query.filters)
        ]
        if self.has_pages:
            described.pop("nextToken", None)
            start = query.start.among(found)
            end = start + query.size
            if end < len(found):
                described["nextToken"] = _token(_Start(end, found[end].identity), query.fingerprint)
            found = found[start:end]
        if self._inner is None:
            values = [item.value for item in found]
        else:
            values = [
                {**around, self._inner: [item.value for item in found if item.around is around]}
                for around in {id(item.around): item.around for item in found if item.around}.values()
            ]
        described[self._wire_name] = values
        return described

    def _items(self, described: Described) -> Iterator[_Item]:
        for one in described.get(self._wire_name) or []:
            if self._inner is None:
                yield _Item(one, None)
            else:
                yield from (_Item(inner, one) for inner in one.get(self._inner) or [])


@functools.cache
def listing_of(action: str) -> Listing | None:
    """Return the listing of an action; None if it does not list anything."""
    operation = get_service_model("ec2").operation_model(action)
    output = operation.output_shape
    if output is None or not action.startswith(("Describe", "Get")):
        return None
    lists = [name for name, shape in output.members.items() if isinstance(shape, ListShape)]
    result = get_pagination_model("ec2").get(action, {}).get("result_key")
    if result in lists:
        return Listing(operation, output, result)
    return Listing(operation, output, lists[0]) if len(lists) == 1 else None


def _fingerprint(action: str, params: Mapping[str, Any], filters: Sequence[Filter]) -> str:
    text = json.dumps([action, params, filters], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _token(start: _Start, fingerprint: str) -> str:
    return base64.urlsafe_b64encode(f"{start.number} {start.identity} {fingerprint}".encode()).decode()


def _read_token(token: str, fingerprint: str) -> _Start:
    """Return where a page begins. A token is valid for the request whose answer had it, with any page size."""
    try:
        parts = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True).decode().split(" ")
    except (binascii.Error, UnicodeError):
        parts = []
    if len(parts) != 3 or parts[2] != fingerprint or not parts[0].isdigit():
        raise Refusal("InvalidNextToken", f"The token '{token}' is invalid.")
    return _Start(int(parts[0]), parts[1])
