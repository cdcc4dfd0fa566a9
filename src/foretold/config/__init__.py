"""The settings of a node: `foretold.toml`, typed, every setting with one sentence.

values.py reads single values with their units, settings.py names them all, reading.py turns a file into them.
"""

from foretold.config.reading import load, load_file
from foretold.config.settings import Config

__all__ = ["Config", "load", "load_file"]
