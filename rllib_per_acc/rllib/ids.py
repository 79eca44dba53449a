"""Ids of agents, modules and policies, which may be anything hashable, where text is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

LONGEST = 100
"""So many characters an id has in the names of metrics."""


def text_of(id_: Hashable) -> str:
    """Another text for each id: strings stand for themselves."""
    return id_ if isinstance(id_, str) else f"{type(id_).__name__}\0{id_!r}"


def metric_key(id_: Hashable) -> str:
    """The id in the name of a metric: `str` of it, as RLlib's env runners have agents' ids.

    In checkpoints `MetricsLogger.get_state` joins the keys of a metric with "--" and `set_state`
    splits them there; a longer text is cut, and told from others by a digest.
    """
    text = str(id_)
    if len(text) <= LONGEST and "--" not in text:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{text[: LONGEST - 10].replace('--', '__')}..{digest}"
