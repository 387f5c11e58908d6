"""create_files: create many files on a mounted target, timed in the page cache and on the device."""
