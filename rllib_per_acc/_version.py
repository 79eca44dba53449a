"""The one place where the version is written; CMake and the build backend read it here."""

__version__ = "0.1.0"
