"""Whether a session is recorded, replayed or neither, and what that makes of its cloud, hosts and workloads."""
