"""iperf3: run a typed job between two hosts and read its output into a measurement."""
