"""The messages of NRI and ttrpc, generated from ``nri.proto`` by ``make proto``."""
