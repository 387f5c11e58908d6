"""What load is put on a target, and what it measured."""
