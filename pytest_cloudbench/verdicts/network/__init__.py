"""How a run over a network is judged: its own view of a measurement, of ceilings and of causes."""
