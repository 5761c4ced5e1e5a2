"""Renders the conda recipe as a build would, and prints the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

RECIPE: Final = Path(__file__).resolve().parent.parent / "packaging" / "conda" / "recipe" / "recipe.yaml"


def main() -> int:
    """Renders it; raises errors of the recipe."""
    from rattler_build import Stage0Recipe, VariantConfig

    for variant in Stage0Recipe.from_file(RECIPE).render(VariantConfig()):
        package = variant.recipe.package
        print(f"{package.name} {package.version}: {len(variant.recipe.requirements.run)} requirements at run time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
