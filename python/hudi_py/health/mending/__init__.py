"""Repairs what the doctor found: plans, acts under the table lock, keeps everything it removes, and can undo."""

from __future__ import annotations
