"""Fixtures for tests that run a real kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Kernel, running_kernel

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kernel)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A fresh kernel in a temporary folder."""
    with running_kernel(tmp_path) as running:
        yield running
