// JavaScript SDK v3: the whole life of instances and volumes, by waiters and paginators.
//
//     npm install @aws-sdk/client-ec2; eval "$(cloudbench twin up)"; node life.mjs

import assert from "node:assert";
import * as sdk from "@aws-sdk/client-ec2";

const ec2 = new sdk.EC2Client({});
const send = (Command, input) => ec2.send(new Command(input));
const tags = (ResourceType) => [{ ResourceType, Tags: [{ Key: "client", Value: "javascript" }] }];
const ours = [{ Name: "tag:client", Values: ["javascript"] }];
const wait = { client: ec2, maxWaitTime: 120, minDelay: 1, maxDelay: 2 };
const COUNT = 7;

const images = await send(sdk.DescribeImagesCommand, {
  Owners: ["136693071363"],
  Filters: [{ Name: "architecture", Values: ["x86_64"] }],
});
const launched = await send(sdk.RunInstancesCommand, {
  ImageId: images.Images[0].ImageId, InstanceType: "m5.large", MinCount: 2, MaxCount: 2,
  TagSpecifications: tags("instance"),
});
const InstanceIds = launched.Instances.map((each) => each.InstanceId);
const VolumeIds = [];
try {
  for (let number = 0; number < COUNT; number++) {
    const made = await send(sdk.CreateVolumeCommand, {
      AvailabilityZone: launched.Instances[0].Placement.AvailabilityZone, Size: 4, VolumeType: "gp3",
      TagSpecifications: tags("volume"),
    });
    VolumeIds.push(made.VolumeId);
  }
  await sdk.waitUntilInstanceRunning(wait, { InstanceIds });
  await sdk.waitUntilVolumeAvailable(wait, { VolumeIds });

  const pages = [];
  for await (const page of sdk.paginateDescribeVolumes({ client: ec2, pageSize: 5 }, { Filters: ours })) {
    pages.push(page.Volumes.map((each) => each.VolumeId));
  }
  assert.deepEqual(pages.map((page) => page.length), [5, 2]);
  assert.deepEqual(pages.flat().sort(), [...VolumeIds].sort());
  let types = 0;
  for await (const page of sdk.paginateDescribeInstanceTypes({ client: ec2, pageSize: 100 }, {})) {
    types += page.InstanceTypes.length;
  }
  assert(types > 500);

  await send(sdk.AttachVolumeCommand, { VolumeId: VolumeIds[0], InstanceId: InstanceIds[0], Device: "/dev/sdf" });
  await sdk.waitUntilVolumeInUse(wait, { VolumeIds: VolumeIds.slice(0, 1) });
  await send(sdk.ModifyVolumeCommand, { VolumeId: VolumeIds[0], Size: 8, Iops: 4000 });
  const { SnapshotId } = await send(sdk.CreateSnapshotCommand, { VolumeId: VolumeIds[0] });
  await sdk.waitUntilSnapshotCompleted(wait, { SnapshotIds: [SnapshotId] });
  await send(sdk.DeleteSnapshotCommand, { SnapshotId });
  await send(sdk.DetachVolumeCommand, { VolumeId: VolumeIds[0] });
  await sdk.waitUntilVolumeAvailable(wait, { VolumeIds });
  await send(sdk.StopInstancesCommand, { InstanceIds });
  await sdk.waitUntilInstanceStopped(wait, { InstanceIds });
  await send(sdk.StartInstancesCommand, { InstanceIds });
  await sdk.waitUntilInstanceRunning(wait, { InstanceIds });
} finally {
  await send(sdk.TerminateInstancesCommand, { InstanceIds });
  await sdk.waitUntilInstanceTerminated(wait, { InstanceIds });
  for (const VolumeId of VolumeIds) await send(sdk.DeleteVolumeCommand, { VolumeId });
  await sdk.waitUntilVolumeDeleted(wait, { VolumeIds });
}
assert.deepEqual((await send(sdk.DescribeVolumesCommand, { Filters: ours })).Volumes ?? [], []);
console.log("JavaScript SDK held");
