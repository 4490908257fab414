"""``python -m qoslet``."""

from __future__ import annotations

from qoslet.surfaces.cli.entry import main

if __name__ == "__main__":
    main()
