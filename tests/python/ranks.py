# SPDX-License-Identifier: MIT
"""Runs a function on several ranks: processes with gloo on the CPU, or with NCCL on a GPU each."""

import os
import tempfile
import traceback
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

warnings.filterwarnings("ignore")


def on_ranks(count, function, *arguments):
    """Calls function(rank, *arguments) on each rank; raises what one of them raised."""
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(_rank, (count, folder, function, arguments), nprocs=count)


def _rank(rank, count, folder, function, arguments):
    import ptxgen
    import ptxgen.torch as pt
    if "emulator" in ptxgen.Device().info.name:
        pt.emulate()
        torch.set_num_threads(1)
        dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=count)
    else:
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=count)
    try:
        function(rank, *arguments)
        dist.barrier()
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # the others may wait for this rank
    dist.destroy_process_group()
