"""The hardware of a test: instances, volumes and their file systems, and what they need from a provider."""
