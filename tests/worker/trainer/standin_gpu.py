"""A device called `cuda` in a torch without CUDA and ROCm; the CPU does its arithmetic.

Its tensors live on torch's extension device (PrivateUse1, in Python) and show `cuda:0` as their
device, as torch's fake tensors do. Like on a GPU, an operator refuses tensors of the host among
those of the device, memory is counted, and only copies cross the border. `torch.cuda`
answers for it, and `torch.version.hip` is set, so that code takes its paths for AMD GPUs.

It has no kernels: its work is done at once, and it computes in float32 where a GPU's autocast would
round. Its streams only check that work waits for other work. `install` changes torch for the whole
process.
"""

import contextlib
import ctypes
import threading
import weakref
from collections import Counter
from types import SimpleNamespace

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.worker.trainer import standin_streams as streams

NAME = "standin"
CUDA = torch.device("cuda", 0)
aten = torch.ops.aten
CROSSING = {aten.copy_.default, aten._to_copy.default, aten.set_.source_Tensor}
"""Operators that take tensors of both sides; any takes numbers, and indices may be the host's."""
GiB = 1 << 30


class Memory:
    """Bytes of the device by storage, and a limit."""

    def __init__(self, total):
        self.total, self.peak, self.ever = total, 0, 0
        self.users, self.sizes = Counter(), {}
        self.refused = set()  # the threads in which it did not fit: the engine has its own

    @property
    def used(self):
        return sum(self.sizes.values())

    def take(self, tensor):
        """Count a tensor's storage; raise torch's error if it does not fit."""
        storage = tensor.raw.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place not in self.sizes:
            if self.used + size > self.total:
                self.refused.add("main" if is_main() else "backward")
                raise torch.OutOfMemoryError(f"HIP out of memory. Tried to allocate {size} bytes")
            self.sizes[place] = size
            self.ever += size
            self.peak = max(self.peak, self.used)
        self.users[place] += 1
        weakref.finalize(tensor, self.give_back, place)

    def give_back(self, place):
        self.users[place] -= 1
        if not self.users[place]:
            del self.users[place], self.sizes[place]


def is_main():
    """Whether this is not the thread in which torch's engine runs backward passes."""
    return threading.current_thread() is threading.main_thread()


class DeviceTensor(torch.Tensor):
    """A tensor of the device; `raw` has its numbers."""

    memory = Memory(16 * GiB)

    @staticmethod
    def __new__(cls, raw):
        return torch.Tensor._make_wrapper_subclass(
            cls, raw.size(), strides=raw.stride(), storage_offset=raw.storage_offset(),
            dtype=raw.dtype, device=torch.device(NAME, 0),
        )  # fmt: skip

    def __init__(self, raw):
        self.raw = raw
        self.made = streams.current_stream().advance()
        self.memory.take(self)

    @property
    def device(self):
        return CUDA

    @property
    def is_cuda(self):
        return True

    def record_stream(self, stream):
        """Memory is given to no other tensor while this one exists."""

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        return run_keeping_errors(operator, args, kwargs or {})


class Guard(torch._C._acc.DeviceGuard):
    """Tells torch the kind of device, also while an error of the backward pass is on its way.

    torch 2.13 asks for it in `PythonDeviceGuard::exchangeStream`, which the engine calls when an
    error leaves a node. Python's error is still set then, so Python cannot be called, and because
    the function is noexcept, the process ends. Here the error is put aside, and raised again by
    `raise_kept`.
    """

    def type_(self):
        CLEAR_ERROR()
        return DEVICE_TYPE


CLEAR_ERROR = ctypes.pythonapi.PyErr_Clear
CLEAR_ERROR.restype = None
DEVICE_TYPE = torch._C._autograd.DeviceType.PrivateUse1
kept_errors = []


def run_keeping_errors(operator, args, kwargs):
    """Run an operator, and keep its error for `raise_kept`."""
    try:
        return run(operator, args, kwargs)
    except Exception as error:
        kept_errors[:] = [error]
        raise


@contextlib.contextmanager
def raise_kept():
    """Raise the operator's error where torch has only lost it."""
    try:
        yield
    except SystemError:
        if kept_errors:
            raise kept_errors.pop() from None
        raise


def is_own(device):
    """Whether a device, or its name, is this one."""
    return device is not None and torch.device(device).type in ("cuda", NAME)


def run(operator, args, kwargs):
    """Run an operator on the host's numbers and return tensors of the device."""
    given = [x for x in _pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    own = [x for x in given if isinstance(x, DeviceTensor)]
    streams.check_order(own)
    foreign = [x for x in given if not isinstance(x, DeviceTensor) and x.dim() > 0]
    if own and foreign and operator not in CROSSING and "index" not in operator.__name__:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {operator} found at least two "
            f"devices, cuda:0 and cpu! (shapes on cpu: {[tuple(x.shape) for x in foreign]})"
        )
    raw_args, raw_kwargs = _pytree.tree_map(_unwrap, (args, kwargs))
    made = operator(*raw_args, **raw_kwargs)
    if operator is aten._local_scalar_dense.default:
        return made
    device = kwargs.get("device")
    stays = bool(own) if device is None else is_own(device)
    if operator is aten.copy_.default:
        return args[0]
    if not stays:
        return made
    return _pytree.tree_map(lambda x: _wrap(x, own), made)


def _unwrap(x):
    if isinstance(x, DeviceTensor):
        return x.raw
    return torch.device("cpu") if isinstance(x, torch.device) and is_own(x) else x


def _wrap(x, own):
    if not isinstance(x, torch.Tensor):
        return x
    same = [each for each in own if each.raw is x]  # written in place
    if same:
        return same[0]
    with torch.inference_mode(False):  # torch could not make it a view of a tensor from before
        return DeviceTensor(x)


class Renaming(TorchFunctionMode):
    """Gives calls that name `cuda` the device's real name, which torch's parser accepts."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.device:
            return function(*args, **(kwargs or {}))
        args, kwargs = _pytree.tree_map(self._rename, (args, kwargs or {}))
        kwargs.pop("pin_memory", None)  # torch has no pinned memory for this device
        if function is torch.Tensor.tolist:
            return function(args[0].cpu())
        if function in (torch.tensor, torch.as_tensor) and is_own(kwargs.get("device")):
            return function(*args, **{**kwargs, "device": "cpu"}).to(kwargs["device"])
        with raise_kept():
            return function(*args, **kwargs)

    @staticmethod
    def _rename(x):
        if isinstance(x, torch.device) and x.type == "cuda":
            return torch.device(NAME, 0)
        return f"{NAME}:0" if isinstance(x, str) and x in ("cuda", "cuda:0") else x


class Autocast(torch.autocast):
    """Torch's, under the device's real name."""

    def __init__(self, kind, **options):
        super().__init__(NAME if kind == "cuda" else kind, **options)


class Generator(torch.Generator):
    """The host's, because its kernels draw the numbers."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls)

    def __init__(self, device="cpu"):
        self._shown = torch.device(device)

    @property
    def device(self):
        return self._shown


class Module:
    """What torch asks of an extension device."""

    def is_initialized(self):
        return True

    def is_available(self):
        return True

    def current_device(self):
        return 0

    def device_count(self):
        return 1

    def _is_in_bad_fork(self):
        return False

    def manual_seed_all(self, seed):
        """The host's generator makes the random numbers."""

    def get_rng_state(self, device=None):
        return torch.get_rng_state()

    def set_rng_state(self, state, device=None):
        torch.set_rng_state(state)

    def get_amp_supported_dtype(self):
        return [torch.bfloat16, torch.float16]


def install(total_bytes=16 * GiB):
    """Make torch show one AMD GPU; return its memory."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=Module(), device_guard=Guard())
    memory = DeviceTensor.memory = Memory(total_bytes)
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda operator, *a, **k: run_keeping_errors(operator, a, k), "PrivateUse1")
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    install.library = library  # its registrations end with it
    _answer_for_cuda(memory)
    Renaming().__enter__()
    return memory


def _answer_for_cuda(memory):
    properties = SimpleNamespace(
        name="Stand-in GPU", gcnArchName="gfx1100", total_memory=memory.total, major=11, minor=0,
        multi_processor_count=48, warp_size=32,
    )  # fmt: skip
    torch.autocast, torch.Generator = Autocast, Generator
    torch.version.hip = "7.15.0"
    answers = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "set_device": lambda _: None, "synchronize": lambda *_: None, "empty_cache": lambda: None,
        "get_arch_list": lambda: ["gfx1100"], "get_device_name": lambda *_: properties.name,
        "get_device_properties": lambda *_: properties, "current_stream": streams.current_stream,
        "mem_get_info": lambda *_: (memory.total - memory.used, memory.total),
        "memory_allocated": lambda *_: memory.used, "memory_reserved": lambda *_: memory.used,
        "max_memory_allocated": lambda *_: memory.peak,
        "max_memory_reserved": lambda *_: memory.peak,
        "reset_peak_memory_stats": lambda *_: setattr(memory, "peak", memory.used),
        "memory_stats": lambda *_: {"allocated_bytes.all.allocated": memory.ever},
        "set_per_process_memory_fraction": lambda *_: None,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state), "Event": streams.Event,
        "Stream": streams.Stream, "stream": streams.use_stream,
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
