"""Judgement: pure functions from a measurement and a promise to a verdict."""
