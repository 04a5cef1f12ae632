"""The catalogue of problem families, in a fixed order. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence

from data.catalogue import (
    calls,
    easy_numbers,
    easy_text,
    harder_dynamic,
    harder_grids,
    harder_lists,
    harder_queries,
    trivial_lists,
    trivial_numbers,
    trivial_text,
)
from data.problem import LEVELS, Family, Problem

__all__ = ["FAMILIES", "LEVELS", "Family", "Problem", "select"]

FAMILIES: tuple[Family, ...] = (
    *trivial_numbers.FAMILIES,
    *trivial_lists.FAMILIES,
    *trivial_text.FAMILIES,
    *easy_numbers.FAMILIES,
    *easy_text.FAMILIES,
    *harder_queries.FAMILIES,
    *harder_lists.FAMILIES,
    *harder_grids.FAMILIES,
    *harder_dynamic.FAMILIES,
    *calls.FAMILIES,
)


def select(levels: Sequence[str] = LEVELS, names: Sequence[str] = ()) -> tuple[Family, ...]:
    """The families of these levels; where names are given, those of that name alone.

    Raises:
        ValueError: there is no family of that name in these levels.
    """
    found = {family.name: family for family in FAMILIES if family.level in levels}
    if unknown := [name for name in names if name not in found]:
        raise ValueError(f"there is no family {unknown[0]} of level {' or '.join(levels)}; there are {', '.join(found)}")
    return tuple(family for name, family in found.items() if not names or name in names)
