"""A change of structure changes nothing that users see: options, commands, fixtures, words, keys, node ids."""

from __future__ import annotations

from pathlib import Path

import pytest
import users_see

SEEN = Path(__file__).parent / "data" / "users_see.txt"


@pytest.mark.slow
def test_users_see_what_they_saw_before() -> None:
    before, now = SEEN.read_text(encoding="utf-8").splitlines(), users_see.lines()
    gone, new = [line for line in before if line not in now], [line for line in now if line not in before]
    assert (gone, new) == ([], []), f"if that is meant, type: python tests/users_see.py > {SEEN}"
