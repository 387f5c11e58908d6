// Go SDK v2: the whole life of instances and volumes, by waiters and paginators.
//
//	go mod init life && go mod tidy; eval "$(cloudbench twin up)"; go run life.go
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	count = 7
	limit = 2 * time.Minute
)

var ctx = context.Background()

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func require(holds bool, what string, figures ...any) {
	if !holds {
		log.Panicf(what, figures...)
	}
}

func tags(kind types.ResourceType) []types.TagSpecification {
	tag := types.Tag{Key: aws.String("client"), Value: aws.String("go")}
	return []types.TagSpecification{{ResourceType: kind, Tags: []types.Tag{tag}}}
}

func main() {
	client := ec2.NewFromConfig(must(config.LoadDefaultConfig(ctx)))
	ours := []types.Filter{{Name: aws.String("tag:client"), Values: []string{"go"}}}
	images := must(client.DescribeImages(ctx, &ec2.DescribeImagesInput{
		Owners:  []string{"136693071363"},
		Filters: []types.Filter{{Name: aws.String("architecture"), Values: []string{"x86_64"}}},
	}))
	launched := must(client.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: images.Images[0].ImageId, InstanceType: types.InstanceTypeM5Large,
		MinCount: aws.Int32(2), MaxCount: aws.Int32(2), TagSpecifications: tags(types.ResourceTypeInstance),
	}))
	var instances, volumes []string
	for _, each := range launched.Instances {
		instances = append(instances, *each.InstanceId)
	}
	described := &ec2.DescribeInstancesInput{InstanceIds: instances}
	defer func() {
		must(client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: instances}))
		check(ec2.NewInstanceTerminatedWaiter(client).Wait(ctx, described, limit))
		for _, volume := range volumes {
			must(client.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String(volume)}))
		}
		left := must(client.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: ours}))
		require(len(left.Volumes) == 0, "%d volumes are left", len(left.Volumes))
		fmt.Println("Go SDK held")
	}()
	for range count {
		made := must(client.CreateVolume(ctx, &ec2.CreateVolumeInput{
			AvailabilityZone: launched.Instances[0].Placement.AvailabilityZone, Size: aws.Int32(4),
			VolumeType: types.VolumeTypeGp3, TagSpecifications: tags(types.ResourceTypeVolume),
		}))
		volumes = append(volumes, *made.VolumeId)
	}
	available := &ec2.DescribeVolumesInput{VolumeIds: volumes}
	check(ec2.NewInstanceRunningWaiter(client).Wait(ctx, described, limit))
	check(ec2.NewVolumeAvailableWaiter(client).Wait(ctx, available, limit))

	var sizes []int
	listed := &ec2.DescribeVolumesInput{Filters: ours, MaxResults: aws.Int32(5)}
	for pages := ec2.NewDescribeVolumesPaginator(client, listed); pages.HasMorePages(); {
		sizes = append(sizes, len(must(pages.NextPage(ctx)).Volumes))
	}
	require(fmt.Sprint(sizes) == "[5 2]", "pages of %v volumes", sizes)
	all := 0
	kinds := &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100)}
	for pages := ec2.NewDescribeInstanceTypesPaginator(client, kinds); pages.HasMorePages(); {
		all += len(must(pages.NextPage(ctx)).InstanceTypes)
	}
	require(all > 500, "%d instance types", all)

	first := aws.String(volumes[0])
	must(client.AttachVolume(ctx, &ec2.AttachVolumeInput{
		VolumeId: first, InstanceId: aws.String(instances[0]), Device: aws.String("/dev/sdf"),
	}))
	inUse := &ec2.DescribeVolumesInput{VolumeIds: volumes[:1]}
	check(ec2.NewVolumeInUseWaiter(client).Wait(ctx, inUse, limit))
	must(client.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: first, Size: aws.Int32(8), Iops: aws.Int32(4000)}))
	snapshot := must(client.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: first}))
	taken := &ec2.DescribeSnapshotsInput{SnapshotIds: []string{*snapshot.SnapshotId}}
	check(ec2.NewSnapshotCompletedWaiter(client).Wait(ctx, taken, limit))
	must(client.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: snapshot.SnapshotId}))
	must(client.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: first}))
	check(ec2.NewVolumeAvailableWaiter(client).Wait(ctx, available, limit))
	must(client.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: instances}))
	check(ec2.NewInstanceStoppedWaiter(client).Wait(ctx, described, limit))
	must(client.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: instances}))
	check(ec2.NewInstanceRunningWaiter(client).Wait(ctx, described, limit))
}
