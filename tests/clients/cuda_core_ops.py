# SPDX-License-Identifier: MIT
"""cuda.core on the emulator: today's NVRTC makes PTX, which is loaded and launched with memory of the
default pool, on a stream and in a graph; printf() and an early return before a barrier included. The
emulator is in LD_LIBRARY_PATH."""
import ctypes
import os
import sys
import tempfile

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float *x, float *y, size_t n)
{
    __shared__ float block[128];
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    block[threadIdx.x] = a * x[i];
    __syncthreads();
    y[i] += block[threadIdx.x];
    if (i + 1 == n)
        printf("element %llu of %s: %.2f\n", (unsigned long long)i, "y", y[i]);
}
"""
COUNT = 1000


def captured(function):
    """What the function writes to the process's standard output."""
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        before = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            function()
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(before, 1)
            os.close(before)
        file.seek(0)
        return file.read().decode()


device = Device(0)
device.set_current()
stream = device.create_stream()
program = Program(SOURCE, code_type="c++", options=ProgramOptions(arch="compute_90"))
code = program.compile("ptx")
kernel = code.get_kernel("saxpy")
x, y = np.arange(COUNT, dtype=np.float32), np.ones(COUNT, dtype=np.float32)
memory = [device.memory_resource.allocate(4 * COUNT, stream=stream) for _ in range(2)]
for buffer, array in zip(memory, (x, y)):
    driver.cuMemcpyHtoD(int(buffer.handle), array.ctypes.data, 4 * COUNT)
config = LaunchConfig(grid=8, block=128)
arguments = (np.float32(2), *memory, np.uint64(COUNT))


def run():
    launch(stream, config, kernel, *arguments)
    stream.sync()


assert captured(run) == "element 999 of y: 1999.00\n"
builder = stream.create_graph_builder().begin_building()
launch(builder, config, kernel, *arguments)
graph = builder.end_building().complete()
captured(lambda: (graph.launch(stream), graph.launch(stream), stream.sync()))
result = np.zeros(COUNT, np.float32)
driver.cuMemcpyDtoH(result.ctypes.data, int(memory[1].handle), 4 * COUNT)
np.testing.assert_array_equal(result, 1 + 6 * x)
print(f"cuda.core: {str(code.code)[:400].split('.version ')[1][:3]} from NVRTC, printf, the default pool "
      "and a graph: ok")
