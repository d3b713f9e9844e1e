"""The folders of these tests hold sockets, so they have short paths."""

from tests.unit.kubeletplugin.conftest import tmp_path

__all__ = ["tmp_path"]
