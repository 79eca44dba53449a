"""Replay buffers and configs for RLlib."""
