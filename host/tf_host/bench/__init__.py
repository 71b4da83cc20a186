"""``tf-bench``: streams against any OpenAI-compatible server, timed and compared token by token.

``prompts`` are what is sent, ``client`` sends one request, ``windows`` runs them alone and together, ``compare`` says
what is equal, ``summary`` and ``report`` say what came out. Nothing here imports MLX.
"""
