"""Mends what the doctor found: plans, acts under the table lock, keeps what it removes, and can be undone."""

from __future__ import annotations
