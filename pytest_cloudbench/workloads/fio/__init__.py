"""fio: a typed job, run on a host, read into a measurement."""
