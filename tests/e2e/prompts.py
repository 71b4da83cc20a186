"""Ten chat prompts of our own: short and long, code, lists, copying, two languages."""

LONG = (
    "Here are the minutes of a village council. "
    + " ".join(
        f"Item {n}: the council discussed the {thing} on {day}, heard {n + 2} residents, and decided to {act}."
        for n, (thing, day, act) in enumerate(
            (
                (thing, day, act)
                for thing in (
                    "old bridge",
                    "school roof",
                    "market square",
                    "bus stop",
                    "library hours",
                    "town hall clock",
                    "ferry timetable",
                )
                for day, act in (
                    ("Monday", "ask for two more offers"),
                    ("Tuesday", "repair it before winter"),
                    ("Thursday", "put the question to a vote"),
                    ("Friday", "leave things as they are"),
                    ("Sunday", "thank the volunteers"),
                    ("Wednesday", "write to the county"),
                    ("Saturday", "walk there together and look"),
                    ("a holiday", "postpone the matter"),
                )
            ),
            start=1,
        )
    )
    + " What did the council decide about the bus stop on Friday?"
)

PROMPTS = (
    "What is the capital of France, and what is it known for?",
    "Write a Python function that returns the n-th Fibonacci number.",
    "List five fruits with their colours, one a line.",
    "Repeat this sentence three times: The quick brown fox jumps over the lazy dog.",
    "请用中文介绍一下北京。",
    "Explain why the sky is blue to a child of six.",
    "Give me advice on how to sleep better.",
    "Translate 'Good morning, how are you?' into French, Spanish and German.",
    LONG,
    "Tell a short story about a lighthouse keeper and a cat.",
)
