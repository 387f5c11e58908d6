"""Instance types that the offline catalogue lacks, as entries of DescribeInstanceTypes.

Two additional keys state source and date. An entry is used only if DescribeInstanceTypes has none.
"""

from __future__ import annotations

from typing import Any

SOURCE_KEY = "cloudbench:source"
DATE_KEY = "cloudbench:date"

_EBS_80K = {
    "BaselineBandwidthInMbps": 19_000,
    "BaselineIops": 80_000,
    "BaselineThroughputInMBps": 2375.0,
    "MaximumBandwidthInMbps": 19_000,
    "MaximumIops": 80_000,
    "MaximumThroughputInMBps": 2375.0,
}

OVERRIDES: dict[str, dict[str, Any]] = {
    "i3.metal": {
        SOURCE_KEY: "from memory of the Amazon EC2 instance type pages; not confirmed by an API answer",
        DATE_KEY: "2026-11",
        "InstanceType": "i3.metal",
        "CurrentGeneration": True,
        "FreeTierEligible": False,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "SupportedBootModes": ["legacy-bios"],
        "BareMetal": True,
        "ProcessorInfo": {
            "Manufacturer": "Intel",
            "SupportedArchitectures": ["x86_64"],
            "SustainedClockSpeedInGhz": 2.3,
        },
        "VCpuInfo": {"DefaultVCpus": 72, "DefaultCores": 36, "DefaultThreadsPerCore": 2},
        "MemoryInfo": {"SizeInMiB": 524_288},
        "InstanceStorageSupported": True,
        "InstanceStorageInfo": {
            "TotalSizeInGB": 15_200,
            "Disks": [{"SizeInGB": 1_900, "Count": 8, "Type": "ssd"}],
            "NvmeSupport": "required",
            "EncryptionSupport": "required",
        },
        "EbsInfo": {
            "EbsOptimizedSupport": "default",
            "EncryptionSupport": "supported",
            "EbsOptimizedInfo": _EBS_80K,
            "NvmeSupport": "required",
            "MaximumEbsAttachments": 31,
        },
        "NetworkInfo": {
            "NetworkPerformance": "25 Gigabit",
            "MaximumNetworkInterfaces": 15,
            "MaximumNetworkCards": 1,
            "DefaultNetworkCardIndex": 0,
            "NetworkCards": [
                {
                    "NetworkCardIndex": 0,
                    "NetworkPerformance": "25 Gigabit",
                    "MaximumNetworkInterfaces": 15,
                    "BaselineBandwidthInGbps": 25.0,
                    "PeakBandwidthInGbps": 25.0,
                }
            ],
            "Ipv4AddressesPerInterface": 50,
            "Ipv6AddressesPerInterface": 50,
            "Ipv6Supported": True,
            "EnaSupport": "required",
            "EfaSupported": False,
        },
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
        "HibernationSupported": False,
        "BurstablePerformanceSupported": False,
        "DedicatedHostsSupported": True,
        "AutoRecoverySupported": False,
    },
}
