"""Nested observations and actions as flat lists of leaves, and back.

A *layout* describes the nesting in JSON-able form: `None` is a leaf, `{"dict": {key: layout}}` a
mapping, `{"tuple": [layout, ...]}` a tuple. Everything else, lists included, is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Layout = dict[str, Any] | None


def layout_of(struct: Any) -> Layout:
    """The layout of `struct` (dicts and tuples of leaves)."""
    if isinstance(struct, dict):
        return {"dict": {key: layout_of(value) for key, value in struct.items()}}
    if isinstance(struct, tuple):
        return {"tuple": [layout_of(value) for value in struct]}
    return None


def num_leaves_of(layout: Layout) -> int:
    """How many leaves structures with this layout have.

    Raises:
        ValueError: If it is no layout.
    """
    if layout is None:
        return 1
    if isinstance(layout, dict) and len(layout) == 1:
        (kind, children), *_ = layout.items()
        if kind == "dict" and isinstance(children, dict):
            return sum(map(num_leaves_of, children.values()))
        if kind == "tuple" and isinstance(children, list):
            return sum(map(num_leaves_of, children))
    raise ValueError(
        f"layout: got {layout!r:.80}, expected None, {{'dict': ...}} or {{'tuple': ...}}"
    )


def flatten(struct: Any, layout: Layout, what: str) -> list[Any]:
    """The leaves of `struct` in the order of `layout`.

    Args:
        struct: A nested structure.
        layout: The layout it must have.
        what: What `struct` is, for the error message.

    Raises:
        ValueError: If `struct` does not have this layout.
    """
    if layout is None:
        if isinstance(struct, dict | tuple):
            raise ValueError(f"{what}: got a {type(struct).__name__}, expected one array")
        return [struct]
    if "dict" in layout:
        children = layout["dict"]
        if not isinstance(struct, dict) or struct.keys() != children.keys():
            got = list(struct) if isinstance(struct, dict) else type(struct).__name__
            raise ValueError(f"{what}: got {got}, expected a dict with keys {list(children)}")
        pairs = [(struct[key], child) for key, child in children.items()]
    else:
        children = layout["tuple"]
        if not isinstance(struct, tuple) or len(struct) != len(children):
            got = f"{len(struct)} items" if isinstance(struct, tuple) else type(struct).__name__
            raise ValueError(f"{what}: got {got}, expected a tuple of {len(children)}")
        pairs = list(zip(struct, children, strict=True))
    return [leaf for value, child in pairs for leaf in flatten(value, child, what)]


def unflatten(leaves: list[Any], layout: Layout) -> Any:
    """The nested structure with this `layout` and these `leaves`."""
    if layout is None:
        return leaves[0]
    remaining = iter(leaves)

    def build(node: Layout) -> Any:
        if node is None:
            return next(remaining)
        if "dict" in node:
            return {key: build(child) for key, child in node["dict"].items()}
        return tuple(build(child) for child in node["tuple"])

    return build(layout)


def map_leaves(function: Callable[[Any], Any], struct: Any) -> Any:
    """`struct` with `function` applied to every leaf."""
    if not isinstance(struct, dict | tuple):
        return function(struct)
    layout = layout_of(struct)
    return unflatten([function(leaf) for leaf in flatten(struct, layout, "struct")], layout)
