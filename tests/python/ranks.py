# SPDX-License-Identifier: MIT
"""Runs functions on several ranks: processes with gloo on the CPU, or with NCCL on a GPU each. They stay
for the next function, and are forked from one that has imported torch and has neither a driver nor threads:
to import it takes 7 seconds of CPU, more than most tests."""

import atexit
import multiprocessing
import tempfile
import traceback
import warnings
from multiprocessing import connection, forkserver

import torch
import torch.distributed as dist

warnings.filterwarnings("ignore")

_TIMEOUT = 900  # seconds, of one function
_IMPORTED = ["ptxgen.torch", "torch._dynamo", "torch.distributed.checkpoint", "torch.distributed.fsdp",
             "torch.distributed.tensor.parallel"]  # those that an older torch lacks are left out
_ranks = []  # (process, pipe) of each rank that runs


def on_ranks(count, function, *arguments, **named):
    """Calls function(rank, *arguments, **named), or what it wraps, on each of `count` ranks; raises what one of
    them raised. Ranks are new after an error, and as many as are asked for."""
    if len(_ranks) != count:
        _end()
        forked = multiprocessing.get_context("forkserver")
        forked.set_forkserver_preload(_IMPORTED)
        for rank in range(count):
            here, there = forked.Pipe()
            process = forked.Process(target=_serve, args=(rank, count, there), daemon=True)
            process.start()
            there.close()
            _ranks.append((process, here))
    with tempfile.TemporaryDirectory() as folder:
        try:
            for _, pipe in _ranks:
                pipe.send((folder, function, arguments, named))
            _wait()
        except BaseException:
            _end()  # the others may wait for the one that failed
            raise


def _wait():
    waiting = {pipe: rank for rank, (_, pipe) in enumerate(_ranks)}
    while waiting:
        ready = connection.wait(list(waiting), _TIMEOUT)
        if not ready:
            raise TimeoutError(f"ranks {sorted(waiting.values())} are at work for {_TIMEOUT} s")
        for pipe in ready:
            rank = waiting.pop(pipe)
            try:
                error = pipe.recv()
            except EOFError:
                error = "it ended"
            if error:
                raise RuntimeError(f"rank {rank}: {error}")


def _end():
    for process, pipe in _ranks:
        pipe.close()
        process.kill()
        process.join()
    _ranks.clear()


def _end_all():
    _end()
    forkserver._forkserver._stop()  # and waits for it


atexit.register(_end_all)


def _serve(rank, count, pipe):
    import ptxgen
    import ptxgen.torch as pt
    backend = "gloo"
    if "emulator" in ptxgen.Device().info.name:
        pt.emulate()
        torch.set_num_threads(1)
    else:
        backend = "nccl"
        torch.cuda.set_device(rank)
    while True:
        try:
            folder, function, arguments, named = pipe.recv()
        except EOFError:
            return
        try:
            dist.init_process_group(backend, f"file://{folder}/store", rank=rank, world_size=count)
            getattr(function, "__wrapped__", function)(rank, *arguments, **named)
            dist.barrier()
            dist.destroy_process_group()
        except BaseException:
            pipe.send(traceback.format_exc())
            return
        pipe.send("")
