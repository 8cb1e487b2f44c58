"""The documentation shows the chaos matrix as it was recorded."""

from __future__ import annotations

import json

from tests.chaos.cells import matrix
from tests.chaos.document import PAGE, RESULTS, document


def test_the_page_shows_the_recorded_matrix() -> None:
    rows = json.loads(RESULTS.read_text())
    assert len(rows) == len(matrix())
    assert PAGE.read_text() == document(rows)
