"""How it is judged: pure functions from a measurement and a promise to a verdict."""
