"""The messages of the CRI, generated from ``cri.proto`` by ``make proto``."""
