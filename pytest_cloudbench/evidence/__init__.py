"""How a run is kept and shown: the live line while a workload runs, the verdicts at the end."""
