"""Launching, stopping, starting and describing instances."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.region_settings import AHEAD_TAG
from pytest_cloudbench.resources.errors import CloudError, ResourceFailed, WaitTimeout
from pytest_cloudbench.resources.facts import (
    Attachment,
    ImageFacts,
    Launch,
    LaunchedInstance,
    Placement,
)

from .clients import Secret
from .doorway import KeyPair
from .errors import THROTTLED, is_temporary
from .kinds import INSTANCE
from .lease import LEASE_TAG, lease_end
from .network_settings import described_options, network_parameters
from .run import Run, belongs_to, run_filter, tags_of
from .user_data import SshKey, cloud_config, new_ssh_key
from .waits import Watcher, poll

CONSOLE_TAIL_LINES = 20
# IMDSv2 only, and one hop: containers on the instance cannot reach its role's credentials.
METADATA_OPTIONS = {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1}

# A new resource may not be visible to the next call yet.
_NOT_VISIBLE_YET = ("InvalidGroup.NotFound", "InvalidKeyPair.NotFound")
# The first instances of a cluster are requested in parallel: one may find the group tied to an unknown zone ("null").
_GROUP_NOT_READY_YET = ("InvalidPlacementGroup.Unknown", "InvalidPlacementGroup.InUse")
_ENDED = ("shutting-down", "terminated")
_LAUNCHES_DIFFER_S = 2.0
QUOTA_USED_UP = (
    *("VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded"),
    "ReservationCapacityExceeded",
)
"""Codes of limits that instances count towards until they have terminated."""


@dataclass(frozen=True)
class LaunchPlan:
    """One call of RunInstances, decided before anything is created. `limits` are those of the launch."""

    launch: Launch
    limits: InstanceLimits
    image: ImageFacts
    place: Placement
    host_key: SshKey
    user_data: str = field(repr=False)
    placement_group: str | None = None
    requested_type: str = ""
    security_group: str | None = None

    @property
    def placement(self) -> dict[str, Any]:
        """The parameter Placement of RunInstances, if it is needed."""
        named = {"GroupName": self.placement_group, "Tenancy": self.launch.tenancy}
        given = {key: value for key, value in named.items() if value}
        return {"Placement": given} if given else {}

    @property
    def what(self) -> str:
        """The plan in words: "c5.18xlarge in us-east-1a"."""
        market = f"{self.launch.market} " if self.launch.market else ""
        group = f", placement group {self.placement_group}" if self.placement_group else ""
        reservation = f", {self.launch.capacity_reservation}" if self.launch.capacity_reservation else ""
        return f"{market}{self.limits.name} in {self.place.zone}{group}{reservation}"


class Instances:
    """The calls on instances. Thread-safe."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._clients = run.clients
        self._boots_without_metadata: dict[str, str] = {}
        self._watcher = Watcher(partial(INSTANCE.described, run.clients), run.clients.pace)

    def plan(
        self,
        launch: Launch,
        limits: InstanceLimits,
        image: ImageFacts,
        place: Placement,
        placement_group: str | None,
    ) -> LaunchPlan:
        """Return a plan with a new host key. Raises CloudError if the user data becomes too large."""
        host_key = new_ssh_key()
        return LaunchPlan(
            launch,
            launch.limited(limits),
            image,
            place,
            host_key,
            cloud_config(host_key, launch.commands, self.run.lease_s),
            placement_group,
            security_group=launch.security_group or self._clients.access.settings.security_group,
        )

    def parameters(self, plan: LaunchPlan, group_id: str | None, token: str = "") -> dict[str, Any]:
        """Return the parameters of RunInstances except the key pair; `token` is the call's token in the journal.

        Without `group_id` the instance is in the default group of its VPC.
        """
        recorded = plan.limits.recorded
        recorded_tags = recorded.tags if recorded else {}
        settings = self._clients.access.settings
        reach = self._clients.access.reach(plan.place.assigns_public)
        parameters: dict[str, Any] = {
            "ImageId": plan.image.id,
            "InstanceType": plan.limits.name,
            "MinCount": 1,
            "MaxCount": 1,
            **network_parameters(plan.place, group_id, plan.launch.network_options, public=reach == "public"),
            "UserData": Secret(plan.user_data),
            "MetadataOptions": METADATA_OPTIONS,
            "InstanceInitiatedShutdownBehavior": "terminate",
            **plan.placement,
            **settings.profile,
            "TagSpecifications": [
                *self.run.tagged(
                    plan.launch.name,
                    "instance",
                    token=token,
                    extra={
                        **recorded_tags,
                        LEASE_TAG: lease_end(self.run.lease_s),
                        **({AHEAD_TAG: "true"} if plan.launch.ahead else {}),
                    },
                ),
                *self.run.tagged(plan.launch.name, "volume", token=token, extra=recorded_tags),
            ],
        }
        if plan.image.root_size_gib:
            # Encrypted like every volume of the run, and deleted with its instance even if the image says otherwise.
            root = {
                "VolumeSize": plan.image.root_size_gib,
                "DeleteOnTermination": True,
                **settings.encryption,
            }
            parameters["BlockDeviceMappings"] = [{"DeviceName": plan.image.root_device, "Ebs": root}]
        if plan.limits.ebs_optimised == "supported":
            # The type's EBS figures apply only with this option; newer types always have it.
            parameters["EbsOptimized"] = True
        if plan.launch.market == "spot":
            # Never started again after an interruption: the measurement has ended.
            parameters["InstanceMarketOptions"] = {
                "MarketType": "spot",
                "SpotOptions": {
                    "SpotInstanceType": "one-time",
                    "InstanceInterruptionBehavior": "terminate",
                },
            }
        if plan.launch.capacity_reservation:
            parameters["CapacityReservationSpecification"] = {
                "CapacityReservationTarget": {"CapacityReservationId": plan.launch.capacity_reservation}
            }
        return parameters

    def launch(self, plan: LaunchPlan, key: KeyPair | None, group_id: str) -> LaunchedInstance:
        """Launch and tag an instance in one call; return it as the answer describes it (pending).

        Without `key` nobody can log in by SSH.
        """
        with self.run.journal.creating("run_instances", plan.what) as intention:
            parameters = {
                **self.parameters(plan, group_id, intention.token),
                **({"KeyName": key.name} if key else {}),
                "ClientToken": intention.token,
            }

            again = (*_NOT_VISIBLE_YET, *(_GROUP_NOT_READY_YET if plan.placement_group else ()))
            launch = partial(
                self._clients.repeat_call, f"launch {plan.what}", "run_instances", codes=again, secret=True
            )
            try:
                answer = launch(**parameters)
            except CloudError as error:
                if error.code not in QUOTA_USED_UP or not self._wait_until_quota_is_free():
                    raise
                answer = launch(**parameters)
            description = answer["Instances"][0]
            intention.done([description["InstanceId"]])
        blank = LaunchedInstance(
            id=description["InstanceId"],
            type=plan.limits.name,
            zone=plan.place.zone,
            state="pending",
            limits=plan.limits,
            image=plan.image,
            key_name=key.name if key else "",
            private_key=key.private_key if key else "",
            host_public_key=plan.host_key.public_line,
            vpc_id=plan.place.vpc_id,
            subnet_id=plan.place.subnet_id,
            requested_type=plan.requested_type,
            market=plan.launch.market,
            network_options=plan.launch.network_options,
            reached_by=self._clients.access.reach(plan.place.assigns_public),
        )
        return self.updated(blank, description)

    def _wait_until_quota_is_free(self) -> bool:
        """Wait until no instance of this run is shutting down. Return False if none was ending or has ended."""
        found = False

        def look() -> bool | None:
            nonlocal found
            states = [
                one["State"]["Name"]
                for one in INSTANCE.find(self._clients, run_filter(self.run.run_id), "that end")
                if belongs_to(one, self.run.run_id)
            ]
            # One that has terminated may have done so after the refusal.
            found = found or any(state in _ENDED for state in states)
            return None if "shutting-down" in states else True

        poll(look, self.run.bounds.terminated_s, self._clients.pace)
        return found

    def refresh(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Return the instance as the API describes it now. Raises ResourceFailed if it no longer exists."""
        description = self._watcher.find(instance.id, self._clients.settle_s)
        if description is None:
            raise ResourceFailed(f"{instance} no longer exists")
        return self.updated(instance, description)

    def wait_for(
        self, instance: LaunchedInstance, state: str, timeout_s: float, after: datetime | None = None
    ) -> LaunchedInstance:
        """Wait until the instance is in `state`. Raises WaitTimeout or ResourceFailed with the console's last lines.

        A description from the launch at `after`, or an earlier launch, is out of date and ignored.
        """
        last = instance
        reason = ""

        def look(description: Mapping[str, Any] | None) -> LaunchedInstance | None:
            nonlocal last, reason
            if description is None:
                # It is invisible right after its launch, and some time after its end.
                gone = not self._watcher.unsettled_s(instance.id, self._clients.settle_s)
                return replace(instance, state=state) if gone and state == "terminated" else None
            reason = _reason(description)
            last = self.updated(instance, description)
            if last.state != state and last.state in _ENDED and state not in _ENDED:
                raise ResourceFailed(
                    f"{instance} ended while waiting for {state!r}: it is {last.state!r}"
                    f"{reason}{self.console_tail(instance.id)}",
                    code=_reason_code(description) if state == "running" else "",
                )
            return last if last.state == state and _is_after(last, after) else None

        reached = self._watcher.wait(instance.id, look, self.bound(instance, timeout_s))
        if reached is None:
            raise WaitTimeout(
                f"{instance} did not reach {state!r} in {self.bound(instance, timeout_s):.0f} s; "
                f"it is {last.state!r}{reason}{self.console_tail(instance.id)}"
            )
        return reached

    def wait_until_running(
        self, instance: LaunchedInstance, after: datetime | None = None
    ) -> LaunchedInstance:
        """Wait until it runs, launched later than `after`, and has the address that SSH uses."""
        running = self.wait_for(instance, "running", self.run.bounds.running_s, after)
        requested, options = instance.network_options, running.network_options
        if requested and options != requested:
            raise ResourceFailed(
                f"{instance} was launched with {requested}, and EC2 describes it with {options or 'neither'}: its "
                "limits are not those that were requested"
            )
        if running.address:
            return running

        def look(description: Mapping[str, Any] | None) -> LaunchedInstance | None:
            now = self.updated(running, description) if description is not None else running
            return now if now.address and _is_after(now, after) else None

        found = self._watcher.wait(running.id, look, self.run.bounds.address_s)
        if found is None:
            raise ResourceFailed(
                f"{instance} runs but has no {instance.reached_by} address "
                "to reach it at; use a subnet that assigns public addresses, "
                "or --cloudbench-address=private from inside its network"
            )
        return found

    def stop(self, instance: LaunchedInstance, *, force: bool) -> LaunchedInstance:
        """Stop it and wait for 'stopped'."""
        ids = [instance.id]
        self._clients.repeat_call(f"stop {instance}", "stop_instances", InstanceIds=ids, Force=force)
        return self.wait_for(instance, "stopped", self.run.bounds.stopped_s)

    def start(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Start it and wait for 'running'; its public address changes."""
        self._metadata_for_boot(instance)
        ids = [instance.id]
        answer = self._clients.repeat_call(f"start {instance}", "start_instances", InstanceIds=ids)
        was_stopped = answer["StartingInstances"][0]["PreviousState"]["Name"] == "stopped"
        # LaunchTime has whole seconds: two launches in one second, possible in an embedded region, have the same time.
        former = instance.launched
        known = was_stopped and former is not None and time.time() - former.timestamp() > _LAUNCHES_DIFFER_S
        return self.wait_until_running(instance, after=former if known else None)

    def reboot(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Request a reboot. The API reports 'running' throughout: only the host shows when it is back.

        A request whose answer was lost is not repeated, which could reboot it twice: the host shows whether it
        rebooted.
        """
        self._metadata_for_boot(instance)

        def ask() -> None:
            try:
                self._clients.call(f"reboot {instance}", "ec2", "reboot_instances", InstanceIds=[instance.id])
            except CloudError as error:
                if not is_temporary(error) or error.code in THROTTLED:
                    raise

        self._clients.repeat(ask)
        return self.refresh(instance)

    def end_metadata(self, instance: LaunchedInstance, boot: str) -> None:
        """Switch the metadata service off, once for each `boot`.

        A connection soon after a reboot request may still reach the old boot. The new boot needs the service: without
        it, cloud-init would take the instance for a different one.
        """
        if self._boots_without_metadata.get(instance.id) != boot:
            self._set_metadata(instance, "disabled")
            self._boots_without_metadata[instance.id] = boot

    def _metadata_for_boot(self, instance: LaunchedInstance) -> None:
        """Switch the metadata service on before a restart, if it was switched off."""
        if instance.id in self._boots_without_metadata:
            self._set_metadata(instance, "enabled")

    def _set_metadata(self, instance: LaunchedInstance, state: str) -> None:
        self._clients.repeat_call(
            f"set the metadata service of {instance} to {state}",
            "modify_instance_metadata_options",
            InstanceId=instance.id,
            HttpEndpoint=state,
        )

    def wait_until_ended(self, instance: LaunchedInstance) -> LaunchedInstance:
        """Wait for 'terminated'; the termination was already requested."""
        return self.wait_for(instance, "terminated", self.run.bounds.terminated_s)

    def console_tail(self, instance_id: str) -> str:
        """Return the end of the console's output, to append to a sentence; "" if there is none."""
        with suppress(CloudError):
            answer = self._clients.call(
                f"read the console of {instance_id}", "ec2", "get_console_output", InstanceId=instance_id
            )
            lines = str(answer.get("Output") or "").rstrip().splitlines()[-CONSOLE_TAIL_LINES:]
            if lines:
                return "; the console's last lines:\n" + "\n".join(f"  {line}" for line in lines)
        return ""

    def bound(self, instance: LaunchedInstance, timeout_s: float) -> float:
        """Return the time limit of a wait on this instance, in seconds."""
        return max(timeout_s, self.run.bounds.bare_metal_s) if instance.limits.bare_metal else timeout_s

    def updated(self, instance: LaunchedInstance, description: Mapping[str, Any]) -> LaunchedInstance:
        """Return the instance as a description of DescribeInstances shows it."""
        public = description.get("PublicIpAddress") or None
        private = description.get("PrivateIpAddress") or None
        running = description["State"]["Name"] == "running"
        return replace(
            instance,
            state=description["State"]["Name"],
            zone=description.get("Placement", {}).get("AvailabilityZone") or instance.zone,
            placement_group=description.get("Placement", {}).get("GroupName") or None,
            private_ip=private,
            public_ip=public,
            address=public if instance.reached_by == "public" else private,
            network_options=described_options(description) if running else instance.network_options,
            launched=description.get("LaunchTime"),
            attachments=_attachments(description),
            tags=tags_of(description),
            state_reason=description.get("StateReason", {}).get("Code") or "",
        )


def _is_after(instance: LaunchedInstance, launch: datetime | None) -> bool:
    """Return True unless the description is known to be from before a start: EC2 sets LaunchTime at each start."""
    return launch is None or instance.launched is None or instance.launched > launch


def _reason(description: Mapping[str, Any]) -> str:
    said = description.get("StateReason", {}).get("Message") or description.get("StateTransitionReason") or ""
    return f"; reason: {said}" if said else ""


def _reason_code(description: Mapping[str, Any]) -> str:
    """Return why an instance ended, such as "InsufficientInstanceCapacity": the code without its prefix, "Server."."""
    code = description.get("StateReason", {}).get("Code") or ""
    return str(code).rpartition(".")[2]


def _attachments(description: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """Return the attachments in one instance of a DescribeInstances answer, including the root volume."""
    return tuple(
        Attachment(
            volume_id=mapping["Ebs"]["VolumeId"],
            instance_id=description["InstanceId"],
            device=mapping.get("DeviceName", ""),
            state=mapping["Ebs"].get("Status", ""),
            card=mapping["Ebs"].get("EbsCardIndex") or 0,
        )
        for mapping in description.get("BlockDeviceMappings", [])
        if mapping.get("Ebs", {}).get("VolumeId")
    )
