"""How far an optimized build may be from its reference, in errors of plain torch: the rule behind every limit."""

from __future__ import annotations

FACTOR = 2.0
# Half of a unit in the last place: nothing rounded to this type can be nearer to the reference on average, and a
# yardstick that happens to be luckier must not fail a build.
HALF_UNIT = {"float64": 2.0**-54, "float32": 2.0**-25, "float16": 2.0**-12, "bfloat16": 2.0**-9}
REFERENCE = {"float32": "float64", "float16": "float32", "bfloat16": "float32"}
