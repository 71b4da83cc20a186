"""The fixture comes with the installed package; a checkout that is not installed has it from here."""

from tf_host.testing.pytest_plugin import tf_engine

__all__ = ["tf_engine"]
