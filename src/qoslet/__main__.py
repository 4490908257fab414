"""``python -m qoslet``."""

from __future__ import annotations

from qoslet.cli.main import main

if __name__ == "__main__":
    main()
