"""A server without weights, for tests of plugins: a small deterministic model whose tokens are bytes.

``tf_host.testing.pytest_plugin`` gives pytest the fixture ``tf_engine``; ``tf_host.testing.family:BytesPlugin`` is the
same model as a plugin, for a whole ``tf-serve``. Nothing here imports MLX before it is used.
"""
