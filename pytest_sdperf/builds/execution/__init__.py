"""A case, ready to be executed: its files, its compilations, its turn on the device, its workers."""
