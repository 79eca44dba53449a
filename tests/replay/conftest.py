"""For all tests of the replay."""

import os

import pytest


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch):
    """Waiting for the disk is most of what a small save takes. Killed processes do wait for it."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
