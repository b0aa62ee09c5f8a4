"""The module `tensorrt` as its bindings show it: the classes and signatures that an engine needs, and no others.

An engine is a folder name with a graph in it; executing it runs the graph with onnxruntime on the addresses of CPU
tensors. While torch captures a CUDA graph nothing is executed, as on a GPU. `tests/data/tensorrt-signatures.json` holds
the signatures of the real bindings, and a test compares.
"""

from __future__ import annotations

import ctypes
import enum
import json

import numpy as np

__version__ = "11.4.0.106"


class State:
    """What the fake saw; a test makes a new one."""

    def __init__(self):
        self.refuses = ""
        self.builds = True
        self.loads = True
        self.prepares = True
        self.executes = True
        self.says = ()
        self.capturing = None
        self.log = []


STATE = State()


class NetworkDefinitionCreationFlag(enum.IntEnum):
    STRONGLY_TYPED = 0


class BuilderFlag(enum.IntEnum):
    TF32 = 6


class TensorIOMode(enum.IntEnum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class DataType(enum.IntEnum):
    FLOAT = 0
    HALF = 1
    INT32 = 3
    BOOL = 4
    BF16 = 7
    INT64 = 8


TYPES = {1: DataType.FLOAT, 7: DataType.INT64, 10: DataType.HALF}


class ILogger:
    class Severity(enum.IntEnum):
        INTERNAL_ERROR = 0
        ERROR = 1
        WARNING = 2
        INFO = 3

    def __init__(self):
        self.made = True

    def log(self, severity, msg):
        raise NotImplementedError


def told(logger, result, *, well):
    """Say what the test wants to be said, and return the result if all goes well."""
    assert logger.made  # as the bindings want it, by the constructor of the base class
    for severity, text in STATE.says:
        logger.log(ILogger.Severity[severity], text)
    return result if well else None


class ITensor:
    def __init__(self, name, shape):
        self.name, self.shape = name, shape


class INetworkDefinition:
    def __init__(self, flags):
        self.flags, self.path, self.inputs = flags, "", []

    @property
    def num_inputs(self):
        return len(self.inputs)

    def get_input(self, index):
        return self.inputs[index]


class IOptimizationProfile:
    def __init__(self):
        self.shapes = {}

    def set_shape(self, input, min, opt, max):  # noqa: A002 - its real names
        self.shapes[input] = (min, opt, max)


class ITimingCache:
    def serialize(self):
        return memoryview(b"timings")


class IBuilderConfig:
    __slots__ = ("_cleared", "_profiles", "_timing_cache", "builder_optimization_level")

    def __init__(self):
        self.builder_optimization_level = 3
        self._cleared, self._profiles, self._timing_cache = [], [], None

    def clear_flag(self, flag):
        self._cleared.append(flag)

    def create_timing_cache(self, serialized_timing_cache):
        assert serialized_timing_cache == b""
        return ITimingCache()

    def set_timing_cache(self, cache, ignore_mismatch):
        self._timing_cache = cache
        return not ignore_mismatch

    def get_timing_cache(self):
        return self._timing_cache

    def add_optimization_profile(self, profile):
        self._profiles.append(profile)
        return len(self._profiles) - 1


class Builder:
    def __init__(self, logger):
        self.logger = logger

    def create_network(self, flags=0):
        return INetworkDefinition(flags)

    def create_builder_config(self):
        return IBuilderConfig()

    def create_optimization_profile(self):
        return IOptimizationProfile()

    def build_serialized_network(self, network, config):
        STATE.log.append((network, config))
        return told(self.logger, memoryview(json.dumps({"path": network.path}).encode()), well=STATE.builds)


class OnnxParser:
    def __init__(self, network, logger):
        self.network, self.logger = network, logger

    @property
    def num_errors(self):
        return 1 if STATE.refuses else 0

    def get_error(self, index):
        return STATE.refuses

    def parse_from_file(self, model):
        import onnx

        if STATE.refuses:
            return False
        self.network.path = model
        for value in onnx.load(model).graph.input:
            sizes = [dim.dim_value or -1 for dim in value.type.tensor_type.shape.dim]
            self.network.inputs.append(ITensor(value.name, sizes))
        return True


class Runtime:
    def __init__(self, logger):
        self.logger = logger

    def deserialize_cuda_engine(self, serialized_engine):
        engine = ICudaEngine(json.loads(bytes(serialized_engine))["path"])
        engine._logger = self.logger
        return told(self.logger, engine, well=STATE.loads)


class ICudaEngine:
    def __init__(self, path):
        import onnx
        import onnxruntime

        graph = onnx.load(path).graph
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self._values = [*graph.input, *graph.output]
        self._inputs = [value.name for value in graph.input]

    @property
    def num_io_tensors(self):
        return len(self._values)

    @property
    def num_layers(self):
        return 3

    def get_tensor_name(self, index):
        return self._values[index].name

    def get_tensor_dtype(self, name):
        (value,) = (value for value in self._values if value.name == name)
        return TYPES[value.type.tensor_type.elem_type]

    def get_tensor_mode(self, name):
        return TensorIOMode.INPUT if name in self._inputs else TensorIOMode.OUTPUT

    def create_execution_context(self):
        return told(self._logger, IExecutionContext(self), well=STATE.prepares)


NUMPY = {DataType.FLOAT: "float32", DataType.HALF: "float16", DataType.INT64: "int64"}


class IExecutionContext:
    def __init__(self, engine):
        self._engine, self._addresses, self._shapes = engine, {}, {}

    def set_input_shape(self, name, shape):
        assert isinstance(shape, tuple)
        self._shapes[name] = shape
        return True

    def set_tensor_address(self, name, memory):
        self._addresses[name] = memory
        return True

    def execute_async_v3(self, stream_handle):
        assert isinstance(stream_handle, int)
        if not STATE.executes:
            return bool(told(self._engine._logger, True, well=False))
        STATE.log.append("captured" if STATE.capturing is not None else "executed")
        if STATE.capturing is not None:
            STATE.capturing.append(self._execute)
        else:
            self._execute()
        return True

    def _execute(self):
        inputs = {name: self._at(name, shape) for name, shape in self._shapes.items()}
        names = [value.name for value in self._engine._session.get_outputs()]
        for name, result in zip(names, self._engine._session.run(names, inputs), strict=True):
            self._at(name, result.shape)[...] = result

    def _at(self, name, shape):
        dtype = NUMPY[self._engine.get_tensor_dtype(name)]
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(self._addresses[name]), dtype=dtype).reshape(shape)
