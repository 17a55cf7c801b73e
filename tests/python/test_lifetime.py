# SPDX-License-Identifier: MIT
"""What frees what, and when: close, `with`, garbage collection, threads, fork, the interpreter's end."""

import gc
import threading
import weakref

import ptxgen
import pytest
from conftest import ON_EMULATOR, SAXPY, free_bytes, python


def made(gpu):
    """One object of each class."""
    array = gpu.zeros(64)
    module = gpu.load(SAXPY)
    plan = gpu.clip_plan([array], max_norm=1.0)
    step = gpu.step_plan([{"parameter": gpu.zeros(4), "gradient": gpu.zeros(4), "step": gpu.zeros(1)}],
                         groups=[ptxgen.SGD(lr=1.0)], max_norm=1.0)
    stream = gpu.stream()
    with gpu.capture(stream) as graph:
        plan.run(stream)
    return [array, module, plan, step, stream, gpu.event(), graph]


@pytest.mark.parametrize("how", ["close", "with", "collected"])
def test_everything_is_freed(gpu, how):
    gc.collect()
    before = free_bytes(gpu)
    objects = made(gpu)
    assert not ON_EMULATOR or free_bytes(gpu) < before
    handles = [weakref.ref(thing.handle) for thing in objects]
    for thing in objects:
        if how == "with" and not isinstance(thing, ptxgen.Graph):
            with thing:
                assert not thing.closed
            assert thing.closed
        elif how != "collected":
            thing.close()
            thing.close()
            assert thing.closed
    del objects, thing
    gc.collect()
    assert [handle() for handle in handles] == [None] * len(handles)
    assert free_bytes(gpu) == before


USES = [lambda t: t.tolist(), lambda t: t["saxpy"], lambda t: t.run(), lambda t: t.run(),
        lambda t: t.synchronize(), lambda t: t.record(), lambda t: t.launch()]


def test_a_graph_is_captured_once(gpu):
    graph = made(gpu)[-1]
    with pytest.raises(ptxgen.InvalidError, match="is captured; capture into a new one"), graph:
        pass
    graph.close()
    with pytest.raises(ptxgen.InvalidError, match="is closed"), graph:
        pass


def test_use_after_close(gpu):
    for thing, use in zip(made(gpu), USES):
        thing.close()
        with pytest.raises(ptxgen.InvalidError, match="is closed"):
            use(thing)
    with ptxgen.Device(primary=True) as device:
        pass
    for use in (lambda: device.zeros(1), lambda: device.load(SAXPY), device.memory, device.stream):
        with pytest.raises(ptxgen.ClosedError, match="the Device is closed"):
            use()
    with pytest.raises(ptxgen.ClosedError), device:
        pass


def test_a_closed_device_frees_last(gpu):
    device = ptxgen.Device(primary=True)
    array, stream = device.array([1.0, 2.0]), device.stream()
    plan = device.clip_plan([array], max_norm=1.0)
    device.close()
    plan.run(stream)
    assert array.tolist(stream=stream)[0] < 1.0


def test_a_function_keeps_its_module(gpu):
    function = gpu.load(SAXPY)["saxpy"]
    gc.collect()
    x, y = gpu.array([1.0] * 4), gpu.zeros(4)
    function(4, 3.0, x, y, grid=1)
    assert y.tolist() == [3.0] * 4


@pytest.mark.parametrize("order", [1, -1])
def test_a_cycle_frees_in_order(gpu, order):
    """Garbage collection finalizes what is in a cycle in any order; the device must go last."""
    for _ in range(20):
        device = ptxgen.Device(primary=True)
        objects = [device, *made(device)]
        cycle = objects[::order]
        cycle.append(cycle)
        handles = [weakref.ref(thing.handle) for thing in objects]
        del device, objects, cycle
        gc.collect()
        assert [handle() for handle in handles] == [None] * len(handles)


def test_moved_gradients_are_let_go(gpu, stream):
    """A plan keeps the arrays that it works on, not those that it worked on once."""
    plan = gpu.clip_plan([gpu.zeros(4), gpu.zeros(4)], max_norm=1.0)
    step = gpu.step_plan([{"parameter": gpu.zeros(4), "gradient": gpu.zeros(4), "step": gpu.zeros(1)}],
                         groups=[ptxgen.SGD(lr=1.0)], max_norm=1.0)
    kept = []
    for _ in range(5):
        one, two = gpu.zeros(4), gpu.zeros(4)
        plan.set_data([one], first=1, stream=stream)
        step.set_addresses({0: {"gradient": two}}, stream=stream)
        kept.append((weakref.ref(one.handle), weakref.ref(two.handle)))
        del one, two
        gc.collect()
        assert all(array() is None for pair in kept[:-1] for array in pair)
        assert all(array() is not None for array in kept[-1])
    step.set_addresses({0: {"gradient": None}}, stream=stream)
    gc.collect()
    assert kept[-1][0]() is not None and kept[-1][1]() is None


def test_a_graph_keeps_captured_addresses(gpu, stream):
    plan = gpu.clip_plan([gpu.array([3.0])], max_norm=1.0)
    moved = gpu.array([5.0])
    handle = weakref.ref(moved.handle)
    with gpu.capture(stream) as graph:
        plan.set_data([moved], stream=stream)
        plan.run(stream)
    plan.set_data([gpu.array([4.0])], stream=stream)
    del moved
    gc.collect()
    assert handle() is not None
    graph.launch(stream)
    assert plan.read(stream).records[0].norm == 5.0
    graph.close()
    gc.collect()
    assert handle() is None


def test_a_plan_keeps_its_arrays(gpu, stream):
    plan = gpu.clip_plan([gpu.array([3.0, 4.0])], max_norm=1.0)
    gc.collect()
    others = [gpu.zeros(2) for _ in range(64)]
    plan.run(stream)
    assert plan.read(stream).records[0].norm == 5.0 and len(others) == 64


def test_a_graph_keeps_what_it_launches(gpu, stream):
    x, y = gpu.array([1.0] * 4), gpu.zeros(4)
    plan = gpu.clip_plan([x], max_norm=1.0)
    function = gpu.load(SAXPY)["saxpy"]
    kept = [weakref.ref(plan.handle), weakref.ref(x.handle)]
    with gpu.capture(stream) as graph:
        plan.run(stream)
        function(4, 2.0, x, y, grid=1, stream=stream)
    plan.close()
    x.close()
    del plan, x, function
    gc.collect()
    assert all(handle() is not None for handle in kept)
    graph.launch(stream)
    assert y.tolist(stream=stream) == [1.0] * 4
    graph.close()
    gc.collect()
    assert all(handle() is None for handle in kept)


def test_an_exported_array_lives_as_long_as_its_capsule(gpu):
    array = gpu.zeros(4)
    handle = weakref.ref(array.handle)
    capsule = array.__dlpack__()
    del array
    gc.collect()
    assert handle() is not None
    del capsule
    gc.collect()
    assert handle() is None


def test_views_of_a_plan_keep_it(gpu):
    plan = gpu.clip_plan([gpu.array([3.0, 4.0])], max_norm=1.0)
    sums = plan.sums
    assert (sums.count, sums.dtype) == (1, "f64") and sums.address == plan.sums.address
    assert plan.summary.address == plan.records.address + 16
    handle = weakref.ref(plan.handle)
    plan.close()
    assert handle() is not None
    del sums
    gc.collect()
    assert handle() is None


def test_threads(gpu, saxpy):
    """Each with its own stream, memory and plan; and one that closes what another uses."""
    failures = []

    def work(number):
        try:
            with gpu.stream() as stream:
                x, y = gpu.array([float(number)] * 100), gpu.zeros(100)
                plan = gpu.clip_plan([x], max_norm=1e9)
                for _ in range(20):
                    plan.run(stream)
                    saxpy(100, 1.0, x, y, grid=1, stream=stream)
                    gpu.kernel("squared_sum", "f32")
                assert y.tolist(stream=stream) == [20.0 * number] * 100
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k + 1,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_closing_under_another_threads_calls(gpu):
    """The other thread gets ClosedError or a result, and never freed memory."""
    for _ in range(10):
        plan, seen = gpu.clip_plan([gpu.array([1.0] * 4096)], max_norm=1.0), []

        def use(plan=plan, seen=seen):
            try:
                while True:
                    plan.run()
                    seen.append(None)
            except ptxgen.ClosedError as error:
                seen.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        while not seen:
            pass
        plan.close()
        thread.join()
        assert isinstance(seen[-1], ptxgen.ClosedError)


def test_errors_belong_to_their_thread(gpu):
    caught = []

    def fail(k):
        for _ in range(50):
            try:
                gpu.load(SAXPY)[f"missing_{k}"]
            except ptxgen.NotFoundError as error:
                caught.append((k, str(error)))

    threads = [threading.Thread(target=fail, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caught) == 150 and all(f"missing_{k}" in message for k, message in caught)


def test_fork():
    """In the child every call on the parent's objects is refused, and freeing them is safe."""
    done = python(f"""
import gc, os, warnings, ptxgen
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: the driver has threads
gpu = ptxgen.Device()
array = gpu.array([1.0, 2.0])
plan = gpu.clip_plan([array], max_norm=1.0)
stream = gpu.stream()
child = os.fork()
if child == 0:
    for use in (plan.run, array.tolist, gpu.memory, lambda: gpu.load({SAXPY!r}), stream.synchronize,
                lambda: gpu.zeros(1)):
        try:
            use()
        except ptxgen.ForkedError as error:
            assert "start the child before CUDA is opened" in str(error)
        else:
            os._exit(1)
    try:
        ptxgen.Device()
    except ptxgen.DriverError as error:
        assert "CUDA_ERROR_NOT_INITIALIZED" in str(error) and "fork first" in str(error)
    else:
        os._exit(2)
    plan.close()
    del array, plan, stream, use, gpu
    gc.collect()
    raise SystemExit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
plan.run(stream)
print(array.tolist(stream=stream)[0] < 1)
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "del gpu", "gpu.close()", "import sys; sys.exit()"])
def test_the_interpreters_end(end):
    """Objects in globals, in cycles, in threads' frames and exported ones, in every order."""
    done = python(f"""
import ptxgen, threading
gpu = ptxgen.Device()
stream = gpu.stream()
array = gpu.array([1.0] * 4)
plan = gpu.clip_plan([array], max_norm=1.0)
with gpu.capture(stream) as graph:
    plan.run(stream)
graph.launch(stream)
cycle = [plan, graph]
cycle.append(cycle)
capsule = array.__dlpack__()
event = threading.Event()
threading.Thread(target=lambda kept: event.wait(), args=(gpu.load({SAXPY!r}),), daemon=True).start()
{end}
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


FAILURES = [("cuInit:100", "NoDeviceError"), ("cuMemAlloc:2@1", "OutOfMemoryError"),
            ("cuLaunchKernel:700@1", "DriverError")]


@pytest.mark.skipif(not ON_EMULATOR, reason="there is a GPU")
@pytest.mark.parametrize("setting, kind", FAILURES)
def test_the_drivers_failures(setting, kind):
    done = python(f"""
import ptxgen
try:
    gpu = ptxgen.Device()
    x = gpu.zeros(4)
    gpu.load({SAXPY!r})["saxpy"](4, 1.0, x, x, grid=1)
except ptxgen.Error as error:
    print(type(error).__name__, error.code, error.status)
""", PTXGEN_EMU_FAIL=setting)
    code = setting.split(":")[1].split("@")[0]
    assert done.stdout.startswith(f"{kind} {code} PTX_ERROR_"), done
