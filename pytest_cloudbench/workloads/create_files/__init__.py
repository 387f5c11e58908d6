"""create_files: many files made on a mounted target, timed in the page cache and on the device."""
