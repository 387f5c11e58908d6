#!/bin/bash
# AWS CLI: the whole life of instances and volumes, by `wait` and in pages. Ends with an error if anything differs.
#
#     pip install awscli; eval "$(cloudbench twin up)"; bash benchmarks/clients/life.sh
set -euo pipefail
export AWS_PAGER=

tags() { echo "ResourceType=$1,Tags=[{Key=client,Value=cli}]"; }
ours=Name=tag:client,Values=cli
require() { [ "$1" = "$2" ] || { echo "$3: expected $1, got $2" >&2; exit 1; }; }

image=$(aws ec2 describe-images --owners 136693071363 --filters Name=architecture,Values=x86_64 \
    Name=block-device-mapping.volume-type,Values=gp3 --query 'Images[0].ImageId' --output text)
read -r -a instances < <(aws ec2 run-instances --image-id "$image" --instance-type m5.large --count 2 \
    --tag-specifications "$(tags instance)" --query 'Instances[].InstanceId' --output text)
volumes=()
clean_up() {
    aws ec2 terminate-instances --instance-ids "${instances[@]}" >/dev/null
    aws ec2 wait instance-terminated --instance-ids "${instances[@]}"
    for volume in "${volumes[@]}"; do aws ec2 delete-volume --volume-id "$volume"; done
}
trap clean_up EXIT
aws ec2 wait instance-status-ok --instance-ids "${instances[@]}"
zone=$(aws ec2 describe-instances --instance-ids "${instances[0]}" \
    --query 'Reservations[0].Instances[0].Placement.AvailabilityZone' --output text)
for _ in 1 2 3 4 5 6 7; do
    volumes+=("$(aws ec2 create-volume --availability-zone "$zone" --size 4 --volume-type gp3 \
        --tag-specifications "$(tags volume)" --query VolumeId --output text)")
done
aws ec2 wait volume-available --volume-ids "${volumes[@]}"
require 7 "$(aws ec2 describe-volumes --filters "$ours" --page-size 5 --query 'length(Volumes)')" 'volumes in pages'
token=$(aws ec2 describe-volumes --filters "$ours" --max-items 3 --output json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["NextToken"])')
require 4 "$(aws ec2 describe-volumes --filters "$ours" --starting-token "$token" --query 'length(Volumes)')" \
    'volumes after the first three'

aws ec2 attach-volume --volume-id "${volumes[0]}" --instance-id "${instances[0]}" --device /dev/sdf >/dev/null
aws ec2 wait volume-in-use --volume-ids "${volumes[0]}"
aws ec2 modify-volume --volume-id "${volumes[0]}" --size 8 --iops 4000 >/dev/null
snapshot=$(aws ec2 create-snapshot --volume-id "${volumes[0]}" --query SnapshotId --output text)
aws ec2 wait snapshot-completed --snapshot-ids "$snapshot"
aws ec2 delete-snapshot --snapshot-id "$snapshot"
aws ec2 detach-volume --volume-id "${volumes[0]}" >/dev/null
aws ec2 wait volume-available --volume-ids "${volumes[@]}"
aws ec2 stop-instances --instance-ids "${instances[@]}" >/dev/null
aws ec2 wait instance-stopped --instance-ids "${instances[@]}"
aws ec2 start-instances --instance-ids "${instances[@]}" >/dev/null
aws ec2 wait instance-running --instance-ids "${instances[@]}"
clean_up
trap - EXIT
require 0 "$(aws ec2 describe-volumes --filters "$ours" --query 'length(Volumes)')" 'volumes left'
echo "$(aws --version 2>&1 | cut -d' ' -f1) held"
