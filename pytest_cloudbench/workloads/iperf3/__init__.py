"""iperf3: a typed job, run between two hosts, read into a measurement."""
