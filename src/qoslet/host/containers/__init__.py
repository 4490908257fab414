"""The programs that start and end containers, all behind one protocol of ``agent.ports``."""
