from tests.host.http.conftest import make_world, text

__all__ = ["make_world", "text"]
