"""One random model that sees, for all tests."""

from __future__ import annotations

import pytest

from tests.vision.seeing import save_seeing_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_seeing_model(tmp_path_factory.mktemp("seeing") / "model")
