"""Graphs of the folder beside this one, and what is planted into them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "fusing"))
