"""What a stage of the bench is told."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["arguments"]


def arguments(description: str | None, *models: str) -> argparse.ArgumentParser:
    """A parser that takes the results' file, the bench's folder, and names of models there."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("results", type=Path)
    parser.add_argument("work", type=Path)
    for model in models:
        parser.add_argument(model)
    return parser
