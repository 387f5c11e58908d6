"""Instances and volumes that were there before the run: found by Describe calls, and never changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pytest_cloudbench.limits.account_values import parse_instance_id, parse_volume_id
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.errors import CloudError, ExistingHardware
from pytest_cloudbench.resources.facts import CreatedVolume, LaunchedInstance

from .clients import Clients
from .images import Images
from .instance_types import InstanceTypes
from .instances import Instances
from .kinds import INSTANCE, VOLUME, Kind
from .network_settings import described_options
from .run import tags_of
from .terraform import Terraform, TerraformError
from .volumes import updated

_ENDED = ("shutting-down", "terminated")
_REMEDIES = {
    "pending": "wait until it runs",
    "stopping": "start it again, which a run never does with existing hardware",
    "stopped": "start it first, which a run never does with existing hardware",
}


class Existing:
    """Finds hardware of the account that the run did not create. It makes Describe calls only.

    ``terraform`` has the names of the session's Terraform state, None if the session has none.
    """

    def __init__(
        self,
        clients: Clients,
        types: InstanceTypes,
        images: Images,
        instances: Instances,
        terraform: Terraform | None = None,
    ) -> None:
        self._clients = clients
        self._types = types
        self._images = images
        self._instances = instances
        self._terraform = terraform

    def instance(
        self,
        *,
        id: str | None = None,
        tags: Mapping[str, str] | None = None,
        terraform: str | None = None,
        user: str | None = None,
    ) -> LaunchedInstance:
        """Return a running instance as the API describes it. Raises ExistingHardware, TerraformError."""
        if tags is not None:
            return self._instance_of(self._tagged(tags), user)
        instance_id = self._id_of(id, terraform, parse_instance_id)
        return self._instance_of(self._described(INSTANCE, instance_id), user)

    def volume(
        self, *, id: str | None = None, terraform: str | None = None, instance: LaunchedInstance | None = None
    ) -> CreatedVolume:
        """Return an attached volume as the API describes it. Raises ExistingHardware, TerraformError."""
        volume_id = self._id_of(id, terraform, parse_volume_id)
        found = self._described(VOLUME, volume_id)
        attached = [each for each in found.get("Attachments") or () if each.get("State") == "attached"]
        on = [str(each.get("InstanceId")) for each in attached]
        if not on:
            raise ExistingHardware(
                f"volume {volume_id} is {found.get('State')!r} and not attached to an instance: attach it "
                "yourself; a run never attaches existing hardware"
            )
        if instance is not None and instance.id not in on:
            raise ExistingHardware(
                f"volume {volume_id} is attached to {' and '.join(on)}, not to {instance}: name that instance, or "
                "leave the instance out"
            )
        if instance is None and len(on) > 1:
            raise ExistingHardware(
                f"volume {volume_id} is attached to {' and '.join(on)}: name one of these instances too"
            )
        chosen = next(each for each in attached if instance is None or each.get("InstanceId") == instance.id)
        blank = CreatedVolume(
            id=volume_id,
            spec=_spec(found),
            zone=str(found.get("AvailabilityZone", "")),
            size=Size.from_gib(found["Size"]),
            state=str(found.get("State")),
            existing=True,
        )
        return updated(blank, {**found, "Attachments": [chosen]})

    def _id_of(self, id: str | None, terraform: str | None, parse: Callable[[str], str | None]) -> str:
        """Return a well-formed id. Raises ExistingHardware for any other."""
        where = ""
        if terraform is not None:
            if self._terraform is None:
                raise TerraformError(
                    f"terraform={terraform!r} needs --cloudbench-terraform=DIR (cloudbench_terraform in the ini file): "
                    "a directory with a Terraform configuration, or a file of `terraform output -json`"
                )
            id, where = self._terraform.find(terraform), f"{terraform!r} of Terraform: "
        try:
            found = parse(id or "(none)")
        except ValueError as error:
            raise ExistingHardware(f"{where}{error}") from None
        assert found is not None
        return found

    def _described(self, kind: Kind, its_id: str) -> Mapping[str, Any]:
        """Return what the API describes. Raises ExistingHardware if there is none."""
        found = self._clients.repeat(partial(kind.described, self._clients, [its_id])).get(its_id)
        if found is None:
            raise ExistingHardware(self._none(kind.name, its_id))
        return found

    def _tagged(self, tags: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the one instance with these tags that has not ended."""
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        words = " and ".join(f"{key}={value}" for key, value in tags.items())
        listed = self._clients.repeat(
            partial(INSTANCE.find, self._clients, filters, f"with the tags {words}")
        )
        found = [
            one
            for one in listed
            if tags.items() <= tags_of(one).items() and INSTANCE.state(one) not in _ENDED
        ]
        if len(found) == 1:
            return found[0]
        if not found:
            raise ExistingHardware(self._none("instance", f"with the tag {words}"))
        each = ", ".join(sorted(f"{one['InstanceId']} ({INSTANCE.state(one)})" for one in found))
        raise ExistingHardware(
            f"{len(found)} instances have the tag {words}: {each}; name one by its id, or by tags that it alone has"
        )

    def _none(self, what: str, which: str) -> str:
        """Return the message for hardware that does not exist, or is in another account or region."""
        account = ""
        with suppress(CloudError):
            account = f" of account {self._clients.identity().account}"
        cloud = f" ({label})" if (label := self._clients.access.label) else ""
        return (
            f"there is no {what} {which} in {self._clients.region}{account}{cloud}: check it, --cloudbench-cloud, "
            "--cloudbench-region, and whose the credentials are"
        )

    def _instance_of(self, found: Mapping[str, Any], user: str | None) -> LaunchedInstance:
        instance_id, state = str(found["InstanceId"]), INSTANCE.state(found)
        if state != "running":
            remedy = _REMEDIES.get(state, "it no longer exists: name another one")
            raise ExistingHardware(f"instance {instance_id} is {state!r}: {remedy}")
        if str(found.get("Platform") or "").lower() == "windows":
            raise ExistingHardware(f"instance {instance_id} runs Windows; cloudbench runs Linux only")
        options = described_options(found)
        limits = self._types.limits(str(found["InstanceType"]))
        if limits.ebs_optimised == "supported" and not found.get("EbsOptimized"):
            limits = limits.not_optimised()
        access, key_name = self._clients.access, str(found.get("KeyName") or "")
        reach = access.reach(assigns_public=bool(found.get("PublicIpAddress")))
        if access.address == "auto" and not found.get("PublicIpAddress"):
            reach = "private"
        ours = key_name and key_name == access.settings.key_name
        blank = LaunchedInstance(
            id=instance_id,
            type=limits.name,
            limits=limits.with_weighting(options.weighting),
            image=self._images.of_instance(found, user),
            key_name=key_name,
            private_key=access.settings.private_key or "" if ours else "",
            vpc_id=str(found.get("VpcId") or ""),
            subnet_id=str(found.get("SubnetId") or ""),
            market="spot" if found.get("InstanceLifecycle") == "spot" else None,
            network_options=options,
            reached_by=reach,
            existing=True,
        )
        return self._instances.updated(blank, found)


def _spec(found: Mapping[str, Any]) -> VolumeSpec:
    """Return the spec of a described volume. Raises ExistingHardware for a type without known limits."""
    kind = VOLUME_TYPES.get(str(found["VolumeType"]))
    if kind is None:
        raise ExistingHardware(
            f"volume {found['VolumeId']} has the type {found['VolumeType']!r}, whose limits are unknown: state them in "
            "cloudbench-limits.toml"
        )
    return VolumeSpec(
        str(found["VolumeType"]),
        found["Size"],
        found.get("Iops") if kind.takes_iops else None,
        found.get("Throughput") if kind.takes_throughput else None,
    )
