"""Distil the demo drafter: the target writes the text, a smaller Llama learns its distribution from it.

    python distil.py OUT
    python distil.py OUT2 --warm OUT/model.safetensors --seed 21 --lr 1.2e-3

OUT gets config.json and model.safetensors in bfloat16. PyTorch and a GPU are needed here and nowhere else;
`--small` tries the script on a CPU in a minute. Text is written and learned against the clock: what another
run gives again is the agreement with the target, not the bits.
"""

from __future__ import annotations

import argparse
import math
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, DynamicCache, LlamaConfig
from transformers import LlamaForCausalLM as Llama

from tf_demo import pair

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
REPLY = "<|im_start|>assistant\n"
CHAT_SHARE = 0.9  # of the texts are chats; the rest go on from a bare stem

# How a user's turn opens; the target writes the rest of it. One in seven is all the target's own.
CHAT_STEMS = """
Write a Python function that, Explain how, What is, Why do, How can I, Write a short story about,
Give me a list of, Summarize the following text:, Translate, Write a poem about, Tell me about, Compare,
What are the benefits of, Describe, Write an email to, Fix the following code:, Write a SQL query,
Create a JSON object, Who was, When did, Solve the equation, Suggest a recipe for, Plan a trip to,
Write a JavaScript function, Write a C program, Explain the difference between, Rewrite this sentence,
Write a blog post about, What happens if, Is it true that, Help me, Generate a, List five, Can you,
In the context of, Repeat the following text three times:, Count from, Give me step by step instructions,
Write a class in Python, Define
"""
BARE_STEMS = ("", "def ", "import ", "The ", "Once upon a time", "# ", "In 19", '{"', "A ", "class ")


@dataclass(frozen=True)
class Scale:
    """How much is written and learned at a time."""

    texts: int = 2048
    tokens: int = 640
    held_out: int = 256
    batch: int = 64
    logit_rows: int = 8192


SMALL = Scale(texts=4, tokens=64, held_out=4, batch=2)


class Writer:
    """The target as an author of chats and bare texts, user turns included.

    A reply is greedy or sampled at its text's temperature. What comes before it is always sampled at 1, so
    that prompts differ.
    """

    def __init__(self, target: Llama, folder: Path, scale: Scale) -> None:
        self.target, self.scale = target, scale
        encode = AutoTokenizer.from_pretrained(folder).encode
        head = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"
        stems = [stem.strip() for stem in CHAT_STEMS.split(",")]
        self.chats = [encode(head + stem) for stem in [""] * 7 + stems]
        self.bares = [encode("<|endoftext|>" + stem) for stem in BARE_STEMS]
        self.reply = encode(REPLY)

    @torch.no_grad()
    def write(self, texts: int, seed: int, temperatures: tuple[float, ...]) -> Tensor:
        """Token ids [texts, tokens], on the CPU; the temperatures take turns."""
        starts = list(self._starts(texts, torch.Generator().manual_seed(seed)))
        noise = torch.Generator(DEVICE).manual_seed(seed)
        heat = torch.tensor(temperatures, device=DEVICE).repeat(-(-texts // len(temperatures)))[:texts]
        ids = torch.zeros(texts, self.scale.tokens, dtype=torch.long, device=DEVICE)
        for row, start in zip(ids, starts, strict=True):
            row[: len(start)] = torch.tensor(start)
        given = torch.tensor([len(start) for start in starts], device=DEVICE)
        replying = torch.zeros(texts, dtype=torch.bool, device=DEVICE)
        cache = DynamicCache()
        for t in range(self.scale.tokens - 1):
            logits = self.target(ids[:, t : t + 1], past_key_values=cache).logits[:, 0].float()
            drawn = draw(logits, heat, replying, noise)
            ids[:, t + 1] = torch.where(t + 1 < given, ids[:, t + 1], drawn)
            replying |= (ids[:, t] == self.reply[0]) & (ids[:, t + 1] == self.reply[1])
        return ids.cpu()

    def _starts(self, texts: int, choice: torch.Generator) -> Iterator[list[int]]:
        for _ in range(texts):
            stems = self.chats if torch.rand((), generator=choice) < CHAT_SHARE else self.bares
            yield stems[int(torch.randint(len(stems), (), generator=choice))]

    def reply_start(self, ids: Tensor) -> int:
        """Where the first reply in ids [tokens] begins; 0 in a text without one."""
        turns = ((ids[:-1] == self.reply[0]) & (ids[1:] == self.reply[1])).nonzero()
        return int(turns[0]) + len(self.reply) if len(turns) else 0


def draw(logits: Tensor, heat: Tensor, replying: Tensor, noise: torch.Generator) -> Tensor:
    """Next ids [texts] of logits [texts, vocab]: Gumbel draws above a min-p floor, argmax where heat is 0."""
    uniform = torch.rand(logits.shape, device=logits.device, generator=noise).clamp_(1e-9, 1 - 1e-7)
    gumbel = -torch.log(-torch.log(uniform))

    def sampled(scaled: Tensor, min_p: float) -> Tensor:
        floor = scaled.amax(-1, keepdim=True) + math.log(min_p)
        return (scaled.masked_fill(scaled < floor, -1e9) + gumbel).argmax(-1)

    hot = sampled(logits / heat.clamp(min=0.05)[:, None], 0.05)
    reply = torch.where(heat > 0, hot, logits.argmax(-1))
    return torch.where(replying, reply, sampled(logits, 0.02))


def new_drafter(target: Llama) -> Llama:
    """A drafter of 12 M parameters: embeddings along the target's leading directions, the rest random."""
    config = LlamaConfig(
        vocab_size=target.config.vocab_size,
        hidden_size=192,
        num_hidden_layers=6,
        intermediate_size=576,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        rms_norm_eps=1e-5,
        rope_parameters=target.config.rope_parameters,
        max_position_embeddings=target.config.max_position_embeddings,
        tie_word_embeddings=True,
    )
    model = Llama(config).float()
    into_residual = ("o_proj.weight", "down_proj.weight")
    for name, weight in model.model.layers.named_parameters():
        if weight.dim() == 2:
            calmer = math.sqrt(2 * config.num_hidden_layers) if name.endswith(into_residual) else 1
            torch.nn.init.normal_(weight, std=0.05 / calmer)
    with torch.no_grad():
        table = target.get_input_embeddings().weight.float()
        centred = table - table.mean(0)
        sample = centred[torch.randperm(len(table), device=table.device)[:8192]]
        directions = torch.linalg.svd(sample, full_matrices=False).Vh[: config.hidden_size]
        reduced = centred @ directions.T
        model.get_input_embeddings().weight.copy_(reduced / reduced.std() * 0.05)
    return model.to(DEVICE)


def learn(drafter: Llama, target: Llama, ids: Tensor, rows: int) -> float:
    """Add the gradients of one batch of ids [B, T]: 0.7 KL + 0.3 cross entropy to the target's argmax.

    Logits of B x T rows do not fit at once: they are made and differentiated `rows` at a time. Returns the
    loss.
    """
    with torch.no_grad():
        wanted = target.model(ids, use_cache=False).last_hidden_state.flatten(0, 1)
    with torch.autocast(DEVICE, torch.bfloat16):
        hidden = drafter.model(ids, use_cache=False).last_hidden_state.flatten(0, 1)
    leaf, total = hidden.detach().requires_grad_(), 0.0
    for i in range(0, len(leaf), rows):
        chances = target.lm_head(wanted[i : i + rows]).float().softmax(-1)
        with torch.autocast(DEVICE, torch.bfloat16):
            logits = drafter.lm_head(leaf[i : i + rows])
        guesses = logits.float().log_softmax(-1)
        kl = F.kl_div(guesses, chances, reduction="sum")
        ce = F.nll_loss(guesses, chances.argmax(-1), reduction="sum")
        loss = (0.7 * kl + 0.3 * ce) / len(leaf)
        loss.backward()
        total += float(loss.detach())
    hidden.backward(leaf.grad)
    return total


def train(
    drafter: Llama,
    target: Llama,
    texts: Tensor,
    scale: Scale,
    seconds: float,
    peak: float,
) -> None:
    """AdamW against the clock: 100 steps of warm-up, then a cosine down to 5% of the peak rate."""
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=0.0)
    for step, batch in enumerate(batches(texts, scale.batch, seconds)):
        share, ids = batch
        cosine = 0.05 + 0.95 * (0.5 + 0.5 * math.cos(math.pi * share))
        optimizer.param_groups[0]["lr"] = peak * min(1, (step + 1) / 100) * cosine
        optimizer.zero_grad(set_to_none=True)
        loss = learn(drafter, target, ids.to(DEVICE), scale.logit_rows)
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}", flush=True)


def batches(texts: Tensor, size: int, seconds: float) -> Iterator[tuple[float, Tensor]]:
    """Shuffled batches of texts until the time is up, each with the share of it that is spent."""
    began = time.monotonic()
    while True:
        for rows in torch.randperm(len(texts)).split(size):
            share = (time.monotonic() - began) / seconds
            if share >= 1:
                return
            yield share, texts[rows]


@torch.no_grad()
def agreement(drafter: Llama, target: Llama, writer: Writer, texts: Tensor) -> float:
    """Share of reply tokens on which the drafter's argmax is the target's."""
    same = []
    for text in texts:
        ids = text.to(DEVICE)[None]
        with torch.autocast(DEVICE, torch.bfloat16):
            guesses = drafter(ids).logits.argmax(-1)
        equal = (guesses == target(ids).logits.argmax(-1))[0]
        same.append(equal[writer.reply_start(text) : -1].float())
    return float(torch.cat(same).mean())


def save(drafter: Llama, folder: Path) -> None:
    """Write the drafter as a bfloat16 checkpoint, without files of the tokenizer, which is the target's."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {f"model.{name}": w.to("cpu", torch.bfloat16) for name, w in drafter.model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(Path(pair.__file__).parent / "drafter" / "config.json", folder / "config.json")


def main() -> None:
    parser = argparse.ArgumentParser(description="Distil the demo drafter from the demo target.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--write-s", type=float, default=225, help="seconds to write text")
    parser.add_argument("--train-s", type=float, default=285, help="seconds to train")
    parser.add_argument("--warm", type=Path, help="model.safetensors to start from")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--lr", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--small", action="store_true", help="a few tiny steps, to try the script")
    args = parser.parse_args()
    scale = SMALL if args.small else Scale()
    torch.manual_seed(args.seed)

    folder = pair.target(lambda doing, share: None)
    target = Llama.from_pretrained(folder, dtype=torch.bfloat16).to(DEVICE).eval().requires_grad_(False)
    writer = Writer(target, folder, scale)
    written: list[Tensor] = []
    began = time.monotonic()
    while not written or time.monotonic() - began < args.write_s:
        written.append(writer.write(scale.texts, args.seed + 1_000 * len(written), (0.0, 0.6, 0.9)))
        print(f"{sum(part.numel() for part in written) / 1e6:.1f} M tokens written", flush=True)

    drafter = new_drafter(target)
    if args.warm:
        drafter.model.load_state_dict({k.removeprefix("model."): w for k, w in load_file(args.warm).items()})
    train(drafter, target, torch.cat(written), scale, args.train_s, args.lr)
    for heat in (0.0, 0.7):
        held_out = writer.write(scale.held_out, 99, (heat,))
        print(f"agreement at temperature {heat}: {agreement(drafter, target, writer, held_out):.1%}", flush=True)
    save(drafter, args.out)


if __name__ == "__main__":
    main()
