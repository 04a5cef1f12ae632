"""The catalogue of problem families, in a fixed order. Standard library only."""

from __future__ import annotations

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

__all__ = ["FAMILIES", "LEVELS", "Family", "Problem"]

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
