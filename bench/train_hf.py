#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""transformers' own Trainer, a GPT-2 from its configuration, with and without ptxgen.torch: what changes
is two lines, marked below. Needs transformers and accelerate, peft for LoRA, and no download: the text
is this repository's documentation, a byte a token.

    PYTHONPATH=build/python python3 bench/train_hf.py RESULTS [--steps N] [--tiny]

Writes RESULTS/train_hf.json, train_hf.csv (loss and norm every 5 steps) and, with matplotlib,
train_hf.svg. f32, bf16 (autocast) and LoRA; tokens a second without the first 10 steps. Takes less than
two minutes on an H200. --tiny is for the CPU, with the emulator in place of libcuda.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings

import torch
import transformers

import ptxgen
import ptxgen.torch
from scripts import text, write_csv, write_json

BATCH, LENGTH, WARM, EVERY = 8, 512, 10, 5
MODES = ("f32", "bf16", "LoRA")


class Text(torch.utils.data.Dataset):
    """Windows of the documentation, in a fixed order."""

    def __init__(self, length, count):
        tokens = text()
        starts = torch.randint(len(tokens) - length, (count,), generator=torch.Generator().manual_seed(1))
        self.rows = [tokens[int(s):int(s) + length] for s in starts]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        return {"input_ids": self.rows[k], "labels": self.rows[k]}


class Clock(transformers.TrainerCallback):
    """The time from the end of step WARM on."""

    def __init__(self, warm):
        self.warm, self.start, self.seconds = warm, None, None

    def now(self):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.warm:
            self.start = self.now()
        if state.global_step == state.max_steps:
            self.seconds = self.now() - self.start


def model_of(mode, tiny):
    torch.manual_seed(0)
    size = ({"n_layer": 1, "n_embd": 32, "n_head": 2, "vocab_size": 256, "n_positions": 64} if tiny else
            {"n_layer": 12, "n_embd": 768, "n_head": 12})
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, **size))
    if mode == "LoRA":
        import peft
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = peft.get_peft_model(model, peft.LoraConfig(
                r=16, lora_alpha=32, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True))
    return model


def train(mode, ours, options, folder):
    """One run: its losses, norms and tokens a second."""
    steps = options.steps
    length, batch = (32, 2) if options.tiny else (LENGTH, BATCH)
    rate = 1e-3 if mode == "LoRA" else 3e-4
    clock = Clock(min(WARM, steps // 2))
    arguments = transformers.TrainingArguments(
        output_dir=folder, per_device_train_batch_size=batch, max_steps=steps, learning_rate=rate,
        warmup_steps=steps // 10, weight_decay=0.01, max_grad_norm=1.0, logging_steps=EVERY,
        bf16=mode == "bf16", report_to=[], save_strategy="no", disable_tqdm=True, seed=0,
        dataloader_num_workers=0, use_cpu=options.tiny)
    extra = {}
    if ours:
        ptxgen.torch.install()  # the first line: Trainer's clip_grad_norm_
        extra = {"optimizer_cls_and_kwargs": (ptxgen.torch.AdamW, {"lr": rate})}  # the second
    trainer = transformers.Trainer(model=model_of(mode, options.tiny), args=arguments,
                                   train_dataset=Text(length, steps * batch), callbacks=[clock], **extra)
    trainer.remove_callback(transformers.PrinterCallback)
    try:
        trainer.train()
    finally:
        ptxgen.torch.uninstall()
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    optimizer = trainer.optimizer
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return {"mode": mode, "optimizer": f"{type(optimizer).__module__}.{type(optimizer).__name__}",
            "tokens_per_second": (steps - clock.warm) * batch * length / clock.seconds,
            "trained": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
            "tensors": sum(p.requires_grad for p in trainer.model.parameters()),
            "step": [entry["step"] for entry in log], "loss": [float(entry["loss"]) for entry in log],
            "norm": [float(entry["grad_norm"]) for entry in log]}


def plot(runs, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, len(runs), figsize=(4.5 * len(runs), 3.5), squeeze=False)
    for ax, pair in zip(axes[0], runs):
        for run, name, style in zip(pair, ("torch", "ptxgen.torch"), ({"lw": 3, "color": "#aec7e8"},
                                                                     {"lw": 1, "color": "#d62728"})):
            ax.plot(run["step"], run["loss"], label=f"{name}, {run['tokens_per_second']:,.0f} tokens/s",
                    **style)
        ax.set_title(pair[0]["mode"], fontsize=10)
        ax.set_xlabel("step")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    axes[0][0].set_ylabel("loss")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def write(options, runs, versions):
    write_json(options.results, "train_hf.json", {**versions, "runs": runs})
    write_csv(options.results, "train_hf.csv", ["mode", "step", "loss torch", "loss ptxgen", "norm torch", "norm ptxgen"],
              ([theirs["mode"], *row] for theirs, ours in runs for row in zip(
                  theirs["step"], theirs["loss"], ours["loss"], theirs["norm"], ours["norm"])))
    try:
        plot(runs, os.path.join(options.results, "train_hf.svg"))
    except ImportError:
        print("no matplotlib: no plot")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    if options.tiny:
        ptxgen.torch.emulate()
    transformers.logging.set_verbosity_error()
    versions = {"gpu": "emulator" if options.tiny else torch.cuda.get_device_name(),
                "torch": torch.__version__, "transformers": transformers.__version__,
                "ptxgen": ptxgen.__version__}
    runs, worst = [], 0.0
    print(f"{'':5} {'tensors':>7} {'tokens/s torch':>15} {'ptxgen':>10} {'gain':>6} {'last loss torch':>16} "
          f"{'ptxgen':>8} {'apart':>9}")
    for mode in MODES:
        try:
            with tempfile.TemporaryDirectory() as folder:
                pair = [train(mode, ours, options, folder) for ours in (False, True)]
        except ImportError as error:
            print(f"{mode}: not run: {error}")
            continue
        theirs, ours = pair
        runs.append(pair)
        apart = max(abs(x - y) for x, y in zip(theirs["loss"], ours["loss"]))
        worst = max(worst, apart)
        print(f"{mode:5} {ours['tensors']:7} {theirs['tokens_per_second']:15,.0f} "
              f"{ours['tokens_per_second']:10,.0f} "
              f"{ours['tokens_per_second'] / theirs['tokens_per_second']:6.3f} {theirs['loss'][-1]:16.4f} "
              f"{ours['loss'][-1]:8.4f} {apart:9.2e}", flush=True)
        assert ours["optimizer"].startswith("ptxgen.") and theirs["optimizer"].startswith("torch.")
    write(options, runs, versions)
    if worst > 0.1:
        sys.exit(f"the losses part by {worst}")


if __name__ == "__main__":
    main()
