"""LoRA fine-tuning of a small causal language model with PEFT.

`--model` names a model to fine-tune: a folder, or a model of the hub. Without it, the script
fine-tunes a tiny random model, which needs no network. It leaves the adapter, and the weights with
the adapter merged into them.
"""

import argparse
import os
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

import redkiln

OUT = Path(os.environ.get("REDKILN_OUT", "out"))
CHECKPOINTS = Path(os.environ.get("REDKILN_CHECKPOINTS", "checkpoints"))
TEXT = "the quick brown fox jumps over the lazy dog. " * 40


def load_base(name: str | None) -> torch.nn.Module:
    """Load the named model, or build a tiny one that reads bytes."""
    if name is not None:
        return AutoModelForCausalLM.from_pretrained(name)
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=2,
                   bos_token_id=0, eos_token_id=0)
    )  # fmt: skip


def save_adapter(model: PeftModel, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Save the adapter and the optimiser in one atomic step."""
    partial = CHECKPOINTS / "state.tmp"
    adapter = {name: p for name, p in model.state_dict().items() if "lora_" in name}
    torch.save({"adapter": adapter, "optimizer": optimizer.state_dict(), "step": step}, partial)
    partial.replace(CHECKPOINTS / "state.pt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="folder or hub name of a causal language model")
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    base = load_base(options.model)
    model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    model.to(device)
    model.print_trainable_parameters()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=5e-3)
    first = 0
    if (CHECKPOINTS / "state.pt").exists():
        state = torch.load(CHECKPOINTS / "state.pt", weights_only=True, map_location=device)
        model.load_state_dict(state["adapter"], strict=False)
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        print(f"resumes after step {first}")

    tokens = torch.tensor(list(TEXT.encode()), device=device)
    for step in range(first + 1, options.steps + 1):
        starts = torch.randint(0, len(tokens) - 32, (8,))
        batch = torch.stack([tokens[start : start + 32] for start in starts.tolist()])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            redkiln.log(step=step, steps=options.steps, loss=loss)
            print(f"step {step}: loss {loss.item():.3f}")
            save_adapter(model, optimizer, step)

    model.save_pretrained(OUT / "adapter")
    model.merge_and_unload().save_pretrained(OUT / "merged", safe_serialization=True)


if __name__ == "__main__":
    main()
