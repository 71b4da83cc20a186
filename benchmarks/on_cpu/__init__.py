"""The bench on a CPU: its stages, their results and the page they make."""
