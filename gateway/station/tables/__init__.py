"""The station's tables, as data: a module for what belongs together, all in one `metadata`.

Owns names and types, which SQLite and PostgreSQL both know. The exact bytes of a message are kept as bytes; a text
column only ever holds what `gateway.station.storable` returned. A change here is a revision in
`gateway.station.migrations`, too.
"""

import importlib
import pkgutil

from sqlalchemy import MetaData

from gateway.station.tables.metadata import metadata


def complete() -> MetaData:
    """Return the metadata with the tables of every module here, whether or not somebody has imported it."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return metadata
