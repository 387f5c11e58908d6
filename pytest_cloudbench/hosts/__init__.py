"""Hosts: commands, detached jobs, devices, file systems, stripes, tools and counters."""
