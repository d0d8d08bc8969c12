"""Catalogues: a choice among items with numeric descriptors."""

from fidelium.catalogue.catalogue import Catalogue
from fidelium.catalogue.differences import catalogue_differences

__all__ = ["Catalogue", "catalogue_differences"]
