"""HDF5, without what its library does to those who trust it."""
