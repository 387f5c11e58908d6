"""What happens on a host, over SSH: connection, detached jobs, devices, file systems, tools, counters."""
