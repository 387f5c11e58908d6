"""What the fixtures hand out: instances that are hosts, volumes that are targets of a workload."""
