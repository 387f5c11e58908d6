"""Runs whose truth is known because it was planted, without anything of the judge that they test."""
