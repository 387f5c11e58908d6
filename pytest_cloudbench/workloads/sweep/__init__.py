"""Load sweeps: the maximum by a closed loop, then open-loop steps at shares of it, as a curve of latency over load."""
