"""The API's actions on VPCs, subnets, internet gateways and Elastic IP addresses: what moto does not check or do."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from .action_base import RegionActions
from .refusal import Refusal, invalid_combination, required, unsupported, well_formed_id


class NetworkActions(RegionActions):
    """Associate-, Disassociate- and ReleaseAddress; refusals to remove a network that is in use."""

    def associate_address(self) -> Any:
        region = self.home
        elastic = self._named_address()
        instance = self._instance_of_the_request()
        card = instance.nics.get(0)
        if instance.state in ("pending", "shutting-down", "terminated") or card is None:
            raise Refusal(
                "InvalidInstanceID",
                f"The {instance.state} instance '{instance.id}' is not in a valid state for this operation.",
            )
        if not region.backend.has_gateway(instance.vpc_id):
            raise Refusal(
                "Gateway.NotAttached", f"Network {instance.vpc_id} is not attached to any internet gateway"
            )
        before = elastic.eni.instance if elastic.eni else None
        if before not in (None, instance) and not self._get_bool_param("AllowReassociation", False):
            raise Refusal(
                "Resource.AlreadyAssociated",
                f"resource {elastic.allocation_id} is already associated with associate-id {elastic.association_id}",
            )
        self.error_on_dryrun()
        if before is instance:
            return ActionResult({"AssociationId": elastic.association_id})
        if before is not None:
            self._disassociate(elastic)
        replaced = region.backend.elastic_address_of(instance)
        if replaced is not None:
            region.backend.disassociate_address(association_id=replaced.association_id)
        region.backend.take_public_address_from(instance)
        region.backend.associate_address(
            instance, card, allocation_id=elastic.allocation_id, reassociate=True
        )
        self._apply(instance)
        return ActionResult({"AssociationId": elastic.association_id})

    def disassociate_address(self) -> Any:
        params, backend = self.params, self.home.backend
        if association := params.get("AssociationId"):
            elastic = backend.address_by_association([association])[0]
        else:
            elastic = backend.address_by_ip([required(params.get("PublicIp"), "AssociationId")])[0]
        self.error_on_dryrun()
        if elastic.eni is not None:
            self._disassociate(elastic)
        return EmptyResult()

    def release_address(self) -> Any:
        elastic = self._named_address()
        if elastic.eni is not None:
            raise Refusal("InvalidIPAddress.InUse", f"Address {elastic.public_ip} is in use.")
        self.error_on_dryrun()
        self.home.backend.release_address(allocation_id=elastic.allocation_id)
        self.home.backend.source.release_address(elastic.public_ip)
        return EmptyResult()

    def _named_address(self) -> Any:
        allocation, address = self.params.get("AllocationId"), self.params.get("PublicIp")
        if allocation and address:
            raise invalid_combination(
                "You may specify public IP or allocation id, but not both in the same call"
            )
        if allocation:
            return self.home.backend.address_by_allocation([allocation])[0]
        return self.home.backend.address_by_ip([required(address, "AllocationId")])[0]

    def _instance_of_the_request(self) -> Any:
        card_id = self.params.get("NetworkInterfaceId")
        if not card_id:
            return self.instance(self.params.get("InstanceId"))
        card = self.home.backend.get_network_interface(card_id)
        if card.instance is None:
            raise unsupported(
                f"{card_id} belongs to no instance: this region has addresses of instances only."
            )
        return card.instance

    def _disassociate(self, elastic: Any) -> None:
        """Free an Elastic IP address; a running instance that had a public address at its start gets a new one."""
        instance = elastic.eni.instance
        self.home.backend.disassociate_address(association_id=elastic.association_id)
        if instance.state == "running":
            self.home.backend.give_public_address(instance)
        self._apply(instance)

    def _apply(self, instance: Any) -> None:
        """On an instance's host, set the public address that the API shows."""
        region, address = self.home, instance.public_ip
        if instance.id not in region.on_plane:
            return
        with self.on_plane(f"{instance.id} did not get the address {address}", lambda: None):
            region.queues.run(instance.id, lambda: region.plane.instances.set_public_ip(instance.id, address))

    def delete_subnet(self) -> Any:
        subnet_id = well_formed_id("subnet", required(self.params.get("SubnetId"), "SubnetId"))
        subnet = self.home.backend.get_subnet(subnet_id)
        if any(card.subnet.id == subnet.id for card in self.home.backend.enis.values()):
            raise Refusal(
                "DependencyViolation", f"The subnet '{subnet_id}' has dependencies and cannot be deleted."
            )
        self.error_on_dryrun()
        return super().delete_subnet()

    def delete_vpc(self) -> Any:
        backend, vpc_id = self.home.backend, required(self.params.get("VpcId"), "VpcId")
        backend.get_vpc(vpc_id)
        own_groups = [group for group in backend.describe_security_groups() if group.vpc_id == vpc_id]
        if backend.has_gateway(vpc_id) or any(group.name != "default" for group in own_groups):
            raise Refusal(
                "DependencyViolation", f"The vpc '{vpc_id}' has dependencies and cannot be deleted."
            )
        self.error_on_dryrun()
        return super().delete_vpc()

    def detach_internet_gateway(self) -> Any:
        vpc_id = self.params.get("VpcId")
        cards = self.home.backend.enis.values()
        if any(card.subnet.vpc_id == vpc_id and card.public_ip is not None for card in cards):
            raise Refusal(
                "DependencyViolation",
                f"Network {vpc_id} has some mapped public address(es). Please unmap those public address(es) before "
                "detaching the gateway.",
            )
        return super().detach_internet_gateway()
