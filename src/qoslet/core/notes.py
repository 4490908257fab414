"""What was not done and stops nothing, in lines for a surface."""

from __future__ import annotations

MOST = 1000
"""Lines that are kept: whoever reads them is not far behind."""


class Notes(list[str]):
    """Lines in the order in which they came, each once; the last ``MOST`` of them."""

    def keep(self, line: str) -> bool:
        """Add a line. False where it is there already."""
        if line in self:
            return False
        self.append(line)
        del self[:-MOST]
        return True
