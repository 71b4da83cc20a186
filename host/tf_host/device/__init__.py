"""What the server computes on: prepared before MLX is imported, then looked at."""

from tf_host.device.bits import bits_key
from tf_host.device.memory import device_memory, ram
from tf_host.device.mlx_lm import import_mlx_lm
from tf_host.device.prepare import prepare

__all__ = ["bits_key", "device_memory", "import_mlx_lm", "prepare", "ram"]
