"""What all of the API's actions share: the request's parameters, the region, and how instances are found."""

from __future__ import annotations

from typing import Any

from moto.ec2.responses import EC2Response

from . import instance_admission
from .refusal import Refusal
from .region import Region


class RegionActions(EC2Response):  # type: ignore[misc]  # moto is not typed here
    """One request to EC2. moto parses it and writes the answer; actions named here replace moto's own."""

    params: dict[str, Any]

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.home = region  # moto keeps the name of the region in `region`
        self.params = {}

    @property
    def ec2_backend(self) -> Any:
        return self.home.backend

    def instance(self, instance_id: str | None) -> Any:
        """The instance of this id."""
        return self.found_instances([instance_id] if instance_id else None)[0]

    def found_instances(self, ids: list[str] | None) -> list[Any]:
        """The instances of these ids, all or none."""
        wanted = instance_admission.admitted_instance_ids(ids)
        known = {instance.id: instance for instance in self.home.instances()}
        missing = [instance_id for instance_id in wanted if instance_id not in known]
        if missing:
            some = "IDs" if len(missing) > 1 else "ID"
            does = "do" if len(missing) > 1 else "does"
            raise Refusal(
                "InvalidInstanceID.NotFound", f"The instance {some} '{', '.join(missing)}' {does} not exist"
            )
        return [known[instance_id] for instance_id in wanted]

    def refuse_reserved_tags(self) -> None:
        """No request may set the service's own tags."""
        specifications = self.params.get("TagSpecifications") or self.params.get("TagSpecification") or []
        tags = [tag for one in specifications for tag in one.get("Tags") or []]
        tags += self.params.get("Tags") or []
        instance_admission.refuse_reserved_tags(tag.get("Key") for tag in tags)
