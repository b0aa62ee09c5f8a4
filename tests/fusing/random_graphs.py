"""Small ONNX graphs of any kind that exporters, quantizers and people make: valid, and of no model in particular."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import helper, numpy_helper

OPSETS = (13, 15, 17, 18, 20, 21, 23)
FLOATS = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.FLOAT16: np.float16}
CHANNELS = 8
# What turns small errors into large ones: a result of these is compared as a whole.
ROUNDING = frozenset({"Cast", "QuantizeLinear", "DynamicQuantizeLinear", "ArgMax", "Less"})
RANDOM = frozenset({"RandomNormalLike", "RandomUniformLike", "RandomNormal", "Bernoulli"})


class Maker:
    """A graph that grows at one value; `pick` chooses one of several things."""

    def __init__(self, draw, opset):
        self.draw, self.opset = draw, opset
        self.nodes, self.weights, self.functions, self.domains, self.inputs = [], {}, [], {}, []
        self.kinds, self.values = set(), []
        self.count = 0

    def pick(self, *things):
        return self.draw(st.sampled_from(things))

    def weight(self, shape, dtype=T.FLOAT, *, low=-1.0, high=1.0):
        """An initializer, often one that is there already."""
        kind = FLOATS.get(dtype)
        for name, array in self.weights.items():
            if array.shape == tuple(shape) and array.dtype == kind and self.pick(True, False) and low == -1.0:
                return name
        random = np.random.default_rng(len(self.weights))
        return self.constant(np.asarray(random.uniform(low, high, shape)).astype(kind))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def integers(self, *numbers):
        return self.constant(np.array(numbers, dtype=np.int64))

    def op(self, op_type, inputs, *, outputs=1, domain="", **attributes):
        self.count += 1
        names = [f"v{self.count}" if i == 0 else f"v{self.count}_{i}" for i in range(outputs)]
        name = self.pick(f"n{self.count}", f"/block.0/n{self.count}", "")
        self.nodes.append(helper.make_node(op_type, inputs, names, name=name, domain=domain, **attributes))
        self.kinds.add(op_type)
        return names[0] if outputs == 1 else names


# Every step: (maker, value, dtype, shape) -> (value, dtype, shape), or None where it does not fit.


def _unary(make, x, dtype, shape):
    kinds = ["Relu", "Sigmoid", "Tanh", "Neg", "Identity", "Abs"] + (
        ["Gelu"] if make.opset >= 20 and dtype != T.DOUBLE else []
    )
    return make.op(make.pick(*kinds), [x]), dtype, shape


def _softmax(make, x, dtype, shape):
    return make.op("Softmax", [x], axis=make.pick(-1, len(shape) - 1)), dtype, shape


def _dropout(make, x, dtype, shape):
    outputs = make.pick(1, 2)
    found = make.op("Dropout", [x], outputs=outputs)
    return found if outputs == 1 else found[0], dtype, shape


def _binary(make, x, dtype, shape):
    vector = () if make.pick(True, False) else make.pick(shape[-1:], (1,) * len(shape), shape)
    other = make.weight(vector, dtype, low=0.5, high=1.5)
    if make.pick(True, False, False):
        other = make.constant(np.array(1, FLOATS[dtype]))
    pair = [x, other] if make.pick(True, True, False) else [other, x]
    op_type = make.pick("Add", "Mul", "Sub", "Div") if pair[0] == x else make.pick("Add", "Mul", "Sub")
    return make.op(op_type, pair), dtype, shape


def _residual(make, x, dtype, shape):
    same = [name for name, kind, sizes in make.values if (kind, sizes) == (dtype, shape)]
    return make.op(make.pick("Add", "Mul"), [x, make.pick(*same, x)]), dtype, shape


def _linear(make, x, dtype, shape):
    weight = make.weight((shape[-1], CHANNELS), dtype)
    if make.pick(True, False):
        weight = make.op("Transpose", [make.weight((CHANNELS, shape[-1]), dtype)], perm=[1, 0])
    y = make.op("MatMul", [x, weight])
    if make.pick(True, False):
        y = make.op("Add", [make.weight((CHANNELS,), dtype), y])
    return y, dtype, (*shape[:-1], CHANNELS)


def _gemm(make, x, dtype, shape):
    if len(shape) != 2:
        return None
    bias = [make.weight((CHANNELS,), dtype)] if make.pick(True, False) else []
    return make.op("Gemm", [x, make.weight((CHANNELS, shape[1]), dtype), *bias], transB=1), dtype, (shape[0], CHANNELS)


def _conv(make, x, dtype, shape):
    if len(shape) != 4:
        return None
    bias = [make.weight((CHANNELS,), dtype)] if make.pick(True, False) else []
    y = make.op("Conv", [x, make.weight((CHANNELS, shape[1], 3, 3), dtype), *bias], pads=[1] * 4)
    return y, dtype, (shape[0], CHANNELS, *shape[2:])


def _norm(make, x, dtype, shape):
    size = make.weight(shape[-1:], dtype, low=0.5, high=1.5)
    if make.opset >= 17:
        outputs = make.pick(1, 1, 3)
        y = make.op("LayerNormalization", [x, size, make.weight(shape[-1:], dtype)], outputs=outputs)
        return y if outputs == 1 else y[0], dtype, shape
    return make.op("Mul", [x, size]), dtype, shape


def _mean(make, x):
    if make.opset >= 18:
        return make.op("ReduceMean", [x, make.integers(-1)])
    return make.op("ReduceMean", [x], axes=[-1])


def _written_norm(make, x, dtype, shape):
    centred = make.op("Sub", [x, _mean(make, x)])
    square = make.op("Pow", [centred, make.constant(np.array(2, FLOATS[dtype]))])
    small = make.constant(np.array(make.pick(1e-5, 1e-3), FLOATS[dtype]))
    deviation = make.op("Sqrt", [make.op("Add", [_mean(make, square), small])])
    normal = make.op("Div", [centred, deviation])
    scaled = make.op("Mul", [normal, make.weight(shape[-1:], dtype)])
    return make.op("Add", [scaled, make.weight(shape[-1:], dtype)]), dtype, shape


def _group_norm(make, x, dtype, shape):
    if len(shape) != 4 or shape[1] % 4:
        return None
    ones, zeros = (make.constant(np.full(4, number, FLOATS[dtype])) for number in (1, 0))
    split = make.op("Reshape", [x, make.integers(0, 4, -1)])
    normal = make.op("InstanceNormalization", [split, ones, zeros])
    joined = make.op("Reshape", [normal, make.op("Shape", [x])])
    channels = (shape[1], 1, 1)
    scaled = make.op("Mul", [joined, make.weight(channels, dtype)])
    y = make.op("Add", [scaled, make.weight(channels, dtype)])
    return (make.op("Mul", [y, make.op("Sigmoid", [y])]) if make.pick(True, False) else y), dtype, shape


def _gelu(make, x, dtype, shape):
    if dtype == T.DOUBLE:  # the runtime has no kernel
        return None
    root, one, half = (make.constant(np.array(number, FLOATS[dtype])) for number in (2**0.5, 1, 0.5))
    erf = make.op("Erf", [make.op("Div", [x, root])])
    return make.op("Mul", [make.op("Mul", [x, make.op("Add", [erf, one])]), half]), dtype, shape


def _attention(make, x, dtype, shape):
    if len(shape) != 3:
        return None
    heads, size = 2, CHANNELS // 2
    parts = []
    for _ in range(3):
        part = make.op("MatMul", [x, make.weight((shape[-1], CHANNELS), dtype)])
        split = make.op("Reshape", [part, make.integers(0, 0, heads, size)])
        parts.append(make.op("Transpose", [split], perm=[0, 2, 1, 3]))
    turned = make.op("Transpose", [parts[1]], perm=[0, 1, 3, 2])
    scores = make.op("Mul", [make.op("MatMul", [parts[0], turned]), make.constant(np.array(0.5, FLOATS[dtype]))])
    if make.pick(True, False):
        mask = np.triu(np.full((shape[1],) * 2, make.pick(-1e4, -6e4)), 1).astype(FLOATS[dtype])
        scores = make.op("Add", [scores, make.constant(mask)])
    found = make.op("MatMul", [make.op("Softmax", [scores], axis=-1), parts[2]])
    joined = make.op("Transpose", [found], perm=[0, 2, 1, 3])
    return make.op("Reshape", [joined, make.integers(0, 0, CHANNELS)]), dtype, (*shape[:2], CHANNELS)


def _cast(make, x, dtype, shape):
    kinds = (T.FLOAT, T.FLOAT16, T.DOUBLE, T.INT32, T.BOOL, T.BFLOAT16)
    for kind in (make.pick(*kinds), make.pick(T.FLOAT, T.FLOAT16, T.DOUBLE)):
        x, dtype = make.op("Cast", [x], to=kind), kind
    return x, dtype, shape


def _scale(make, shape=()):
    return make.constant(np.full(shape, 0.03, np.float32))


def _quantized(make, x, dtype, shape):
    if dtype != T.FLOAT:
        return None
    zero = [make.constant(np.array(3, make.pick(np.int8, np.uint8)))] if make.pick(True, False) else []
    scale = _scale(make)
    y = make.op("QuantizeLinear", [x, scale, *zero])
    if make.pick(True, False):  # a quantizer moves them apart
        y = make.op("Reshape", [y, make.integers(*([0] * len(shape)))])
    return make.op("DequantizeLinear", [y, scale, *zero]), dtype, shape


def _quantized_linear(make, x, dtype, shape):
    if dtype != T.FLOAT:
        return None
    weight = make.constant(np.random.default_rng(1).integers(-90, 90, (shape[-1], CHANNELS)).astype(np.int8))
    if make.pick(True, False):
        wide = make.op("DequantizeLinear", [weight, _scale(make, (CHANNELS,))], axis=1)
        return make.op("MatMul", [x, wide]), dtype, (*shape[:-1], CHANNELS)
    codes, scale, zero = make.op("DynamicQuantizeLinear", [x], outputs=3)
    product = make.op("Cast", [make.op("MatMulInteger", [codes, weight, zero])], to=T.FLOAT)
    factor = make.op("Mul", [scale, _scale(make)])
    return make.op("Mul", [product, factor]), dtype, (*shape[:-1], CHANNELS)


def _random(make, x, dtype, shape):
    if dtype != T.FLOAT:
        return None
    says = make.pick({}, {"dtype": T.FLOAT})
    if make.pick(True, True, False):
        noise = make.op(make.pick("RandomNormalLike", "RandomUniformLike"), [x], **says)
    else:
        noise = make.op("RandomNormal", [], shape=shape[-1:], **says)
    # Times zero it can still be compared.
    return make.op("Add", [x, make.op("Mul", [noise, make.constant(np.zeros((), np.float32))])]), dtype, shape


def _eye(make, x, dtype, shape):
    if len(shape) != 2:
        return None
    return make.op("Add", [x, make.op("EyeLike", [x], **make.pick({}, {"dtype": dtype}))]), dtype, shape


def _resize(make, x, dtype, shape):
    if len(shape) != 4 or dtype == T.DOUBLE:
        return None
    says = make.pick(
        {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
        {"mode": "linear"},
    )
    y = make.op("Resize", [x, "", make.constant(np.array([1, 1, 2, 2], np.float32))], **says)
    return y, dtype, (*shape[:2], shape[2] * 2, shape[3] * 2)


def _moved(make, x, dtype, shape):
    perm = make.draw(st.permutations(range(len(shape))))
    return make.op("Transpose", [x], perm=perm), dtype, tuple(shape[axis] for axis in perm)


def _reshaped(make, x, dtype, shape):
    if len(shape) == 4:
        return make.op("Reshape", [x, make.integers(0, 0, -1)]), dtype, (*shape[:2], shape[2] * shape[3])
    if len(shape) == 3:
        return make.op("Unsqueeze", [x, make.integers(1)]), dtype, (shape[0], 1, *shape[1:])
    return make.op("Reshape", [x, make.integers(*shape, 1)]), dtype, (*shape, 1)


def _halves(make, x, dtype, shape):
    if shape[-1] % 2:
        return None
    says = {"num_outputs": 2} if make.opset >= 18 else {}
    left, right = make.op("Split", [x], outputs=2, axis=-1, **says)
    return make.op("Concat", [right, left], axis=-1), dtype, shape


def _compared(make, x, dtype, shape):
    test = make.op("Less", [x, make.constant(np.array(0.1, FLOATS[dtype]))])
    return make.op("Where", [test, x, make.op("Neg", [x])]), dtype, shape


def _branch(make, x, dtype, shape):
    graphs = []
    for number in (0, 1):
        result = f"b{make.count}_{number}"
        node = helper.make_node("Add", [x, make.constant(np.array(number, FLOATS[dtype]))], [result])
        info = helper.make_tensor_value_info(result, dtype, None)
        graphs.append(helper.make_graph([node], f"branch{number}", [], [info]))
    test = make.constant(np.array(make.pick(True, False)))
    if make.pick(True, False):
        size = make.op("Shape", [x])
        test = make.op("Equal", [make.op("Gather", [size, make.constant(np.array(0))]), make.constant(np.array(2))])
    return make.op("If", [test], then_branch=graphs[0], else_branch=graphs[1]), dtype, shape


def _loop(make, x, dtype, shape):
    tag = make.count
    held = [helper.make_tensor_value_info(f"i{tag}", T.INT64, []), helper.make_tensor_value_info(f"c{tag}", T.BOOL, [])]
    state = helper.make_tensor_value_info(f"s{tag}", dtype, None)
    nodes = [
        helper.make_node("Identity", [f"c{tag}"], [f"d{tag}"]),
        helper.make_node("Add", [f"s{tag}", x], [f"t{tag}"]),
    ]
    results = [
        helper.make_tensor_value_info(f"d{tag}", T.BOOL, []),
        helper.make_tensor_value_info(f"t{tag}", dtype, None),
    ]
    body = helper.make_graph(nodes, "body", [*held, state], results)
    return make.op("Loop", [make.constant(np.array(2)), make.constant(np.array(True)), x], body=body), dtype, shape


def _function(make, x, dtype, shape):
    if not make.functions:
        nodes = [helper.make_node("Add", ["a", "a"], ["b"]), helper.make_node("Tanh", ["b"], ["c"])]
        opsets = [helper.make_opsetid("", make.opset)]
        make.functions.append(helper.make_function("local", "Twice", ["a"], ["c"], nodes, opsets))
    make.domains["local"] = 1
    return make.op("Twice", [x], domain="local"), dtype, shape


def _contrib(make, x, dtype, shape):
    if dtype != T.FLOAT:
        return None
    make.domains["com.microsoft"] = 1
    return make.op(make.pick("QuickGelu", "FastGelu", "Gelu"), [x], domain="com.microsoft"), dtype, shape


STEPS = (
    _unary, _softmax, _dropout, _binary, _residual, _linear, _gemm, _conv, _norm, _written_norm, _group_norm, _gelu,
    _attention, _cast, _quantized, _quantized_linear, _random, _eye, _resize, _moved, _reshaped, _halves, _compared,
    _branch, _loop, _function, _contrib,
)  # fmt: skip


@st.composite
def graphs(draw):
    """A valid model of one or two inputs, and the kinds of its operators."""
    opset = draw(st.sampled_from(OPSETS))
    make = Maker(draw, opset)
    shape = draw(st.sampled_from([(2, 8), (2, 5, 8), (2, 8, 4, 6), (1, 4, 4, 4)]))
    dtype = draw(st.sampled_from([T.FLOAT] * 6 + [T.FLOAT16, T.DOUBLE]))
    first = (dtype, shape)
    at = ("x", dtype, shape)
    make.values.append(at)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6)):
        at = step(make, *at) or at
        make.values.append(at)
    if not make.nodes:
        make.values.append((make.op("Identity", ["x"]), *first))
    return _model(make, first, opset), make.kinds


def _model(make, first, opset):
    # An open size is given as 2: a graph that was made for 1 and moves that axis to its channels cannot take it.
    open_batch = first[1][0] == 2 and make.pick(True, False)

    def info(name, dtype, shape):
        return helper.make_tensor_value_info(name, dtype, ["N", *shape[1:]] if open_batch and name == "x" else shape)

    outputs = [make.values[-1]]
    if make.pick(True, False, False):  # one that others read, or an input as it is
        outputs.append(make.pick(*make.values[:-1]))
    declared = {
        name: helper.make_tensor_value_info(name, dtype, [None] * len(shape) if open_batch else shape)
        for name, dtype, shape in outputs
    }
    if make.pick(True, False, False):
        make.constant(np.ones(3, np.float32))  # nobody reads it
    tensors = [numpy_helper.from_array(array, name) for name, array in make.weights.items()]
    inputs = [info("x", *first)]
    if tensors and make.pick(True, False, False, False):  # a default that a caller may override
        inputs.append(helper.make_tensor_value_info(tensors[0].name, tensors[0].data_type, tensors[0].dims))
    graph = helper.make_graph(make.nodes, "g", inputs, list(declared.values()), tensors)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*pair) for pair in make.domains.items())]
    model = helper.make_model(graph, opset_imports=opsets, functions=make.functions, ir_version=8)
    if make.pick(True, False):
        model = onnx.shape_inference.infer_shapes(model)
    return model
