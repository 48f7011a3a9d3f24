"""A BERT encoder as an ONNX graph, with ONNX Runtime's fused operators, from weights in memory.

B texts, S tokens, H dimensions, C classes. Inputs, all int32 [B, S]: `input_ids`, `attention_mask` (1 for a
token), `token_type_ids`. The one output is named as asked for:

* `sentence`: fp32 [B, H], pooled over the tokens and of length 1;
* `tokens`: fp32 [B, S, H], the last hidden states;
* `states`: fp32 [B, S, L * H], the hidden states of the layers asked for, 0 for the embeddings;
* `head`: fp32 [B, C], logits from the state of the first token: `head.weight` [C, H] and `head.bias` [C], behind
  `tanh` of `head.dense.weight` [H, H] and `head.dense.bias` [H] when the weights hold those.

Padding changes nothing but the last bits of a vector.
"""

from typing import Literal

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from semantic.errors import ModelError
from semantic.models.folder import BertConfig, Weights

Output = Literal["sentence", "tokens", "states", "head"]

_MICROSOFT = "com.microsoft"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_OPSET = 17
_IR_VERSION = 8
_MOST_BYTES = (2 << 30) - (1 << 20)


class _Graph:
    """Nodes and initializers under construction; each value has the name of what makes it."""

    def __init__(self, weights: Weights, config: BertConfig) -> None:
        self.config = config
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self._weights = weights

    def weight(self, name: str, *shape: int, transposed: bool = False) -> str:
        """Adds a weight of the checkpoint, [out, in] turned to [in, out] when transposed."""
        value = self.checked(name, *shape)
        return self.constant(name, value.T if transposed else value)

    def checked(self, name: str, *shape: int) -> np.ndarray:
        """A weight whose shape is as it must be.

        Raises:
            ModelError: it is absent or of another shape.
        """
        value = self._weights.get(name)
        if value is None:
            raise ModelError(f"the weights lack {name}")
        if value.shape != shape:
            raise ModelError(f"{name} has shape {value.shape}, expected {shape}")
        return value

    def rows(self, name: str) -> int:
        """The length of a weight's first axis, 0 when it is absent."""
        return len(self._weights.get(name, ()))

    def has(self, name: str) -> bool:
        """Whether the checkpoint holds a weight."""
        return name in self._weights

    def constant(self, name: str, value: np.ndarray) -> str:
        """Adds a constant, once."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def node(self, kind: str, inputs: list[str], name: str, domain: str = "", **attributes: float | str) -> str:
        """Adds a node and returns the name of its first output."""
        outputs = [name]
        if kind == "EmbedLayerNormalization":
            outputs.append(f"{name}.lengths")
        made = helper.make_node(kind, inputs, outputs, name, domain=domain)
        made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(made)
        return name


def session(
    weights: Weights,
    config: BertConfig,
    output: Output,
    threads: int,
    *,
    pooling: str = "mean",
    layers: tuple[int, ...] = (),
) -> ort.InferenceSession:
    """Builds the graph and loads it on the CPU.

    Args:
        weights: fp32, by their names in a checkpoint of `BertModel`; the caller may drop them afterwards.
        config: the encoder's shape.
        output: what to compute.
        threads: that compute; they sleep between two runs.
        pooling: `mean` over all tokens or `cls`, the first; of `sentence` only.
        layers: whose states are wanted, ascending; of `states` only.

    Raises:
        ModelError: a weight is absent or misshaped, or they are too many for one graph.
    """
    return load(build(weights, config, output, pooling, layers), threads)


def load(model: onnx.ModelProto, threads: int) -> ort.InferenceSession:
    """Loads a graph on the CPU."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def build(
    weights: Weights, config: BertConfig, output: Output, pooling: str = "mean", layers: tuple[int, ...] = ()
) -> onnx.ModelProto:
    """Builds the graph; arguments and errors as for `session`."""
    if sum(value.nbytes for value in weights.values()) > _MOST_BYTES:
        raise ModelError("the weights are too many for an ONNX graph in memory; use the `sentence` embedder")
    graph = _Graph(weights, config)
    hidden = _embed(graph)
    first_only = output == "head" or (output == "sentence" and pooling == "cls")
    states = [hidden]
    for layer in range(config.layers):
        hidden = _layer(graph, hidden, layer, first_only=first_only and layer == config.layers - 1)
        states.append(hidden)
    if output == "states":
        graph.node("Concat", [states[layer] for layer in layers], "states", axis=2)
        width = len(layers) * config.hidden
    else:
        width = _OUTPUTS[output](graph, hidden, pooling)
    per_token = output in ("tokens", "states")
    shape: list[int | str] = ["batch", "length", width] if per_token else ["batch", width]
    made = helper.make_graph(
        graph.nodes,
        "bert",
        [helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "length"]) for name in _INPUTS],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        list(graph.constants.values()),
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=_IR_VERSION)


def _embed(graph: _Graph) -> str:
    config, prefix = graph.config, "embeddings"
    tables = [
        graph.weight(f"{prefix}.word_embeddings.weight", config.vocabulary, config.hidden),
        graph.weight(f"{prefix}.position_embeddings.weight", config.positions, config.hidden),
        graph.weight(f"{prefix}.token_type_embeddings.weight", config.types, config.hidden),
    ]
    inputs = ["input_ids", "token_type_ids", *tables, *_norm(graph, f"{prefix}.LayerNorm"), "attention_mask"]
    return graph.node("EmbedLayerNormalization", inputs, prefix, _MICROSOFT, epsilon=config.norm_eps)


def _layer(graph: _Graph, hidden: str, number: int, *, first_only: bool) -> str:
    """One layer; with `first_only` everything behind the attention is computed for the first token alone."""
    config, prefix = graph.config, f"encoder.layer.{number}"
    width, inner = config.hidden, config.intermediate
    inputs = [hidden, *_projections(graph, f"{prefix}.attention.self"), "attention_mask"]
    attended = graph.node("Attention", inputs, f"{prefix}.attention", _MICROSOFT, num_heads=config.heads)
    if first_only:
        attended, hidden = _first(graph, attended), _first(graph, hidden)
    mixed = _dense(graph, attended, f"{prefix}.attention.output.dense", width, width)
    hidden = _add_norm(graph, mixed, hidden, f"{prefix}.attention.output")
    wide = _dense(graph, hidden, f"{prefix}.intermediate.dense", inner, width)
    bias = graph.weight(f"{prefix}.intermediate.dense.bias", inner)
    active = graph.node("BiasGelu", [wide, bias], f"{prefix}.gelu", _MICROSOFT)
    narrow = _dense(graph, active, f"{prefix}.output.dense", width, inner)
    return _add_norm(graph, narrow, hidden, f"{prefix}.output")


def _projections(graph: _Graph, prefix: str) -> tuple[str, str]:
    """Query, key and value as one matrix [H, 3 * H] and one bias."""
    width, parts = graph.config.hidden, ("query", "key", "value")
    weights = [graph.checked(f"{prefix}.{part}.weight", width, width).T for part in parts]
    biases = [graph.checked(f"{prefix}.{part}.bias", width) for part in parts]
    return (
        graph.constant(f"{prefix}.weight", np.concatenate(weights, axis=1)),
        graph.constant(f"{prefix}.bias", np.concatenate(biases)),
    )


def _dense(graph: _Graph, value: str, name: str, out: int, inner: int) -> str:
    """A product without its bias, which the next, fused operator adds."""
    return graph.node("MatMul", [value, graph.weight(f"{name}.weight", out, inner, transposed=True)], name)


def _add_norm(graph: _Graph, value: str, skip: str, prefix: str) -> str:
    bias = graph.weight(f"{prefix}.dense.bias", graph.config.hidden)
    inputs = [value, skip, *_norm(graph, f"{prefix}.LayerNorm"), bias]
    return graph.node("SkipLayerNormalization", inputs, prefix, _MICROSOFT, epsilon=graph.config.norm_eps)


def _norm(graph: _Graph, name: str) -> tuple[str, str]:
    width = graph.config.hidden
    return graph.weight(f"{name}.weight", width), graph.weight(f"{name}.bias", width)


def _first(graph: _Graph, value: str) -> str:
    """The first token's state, [B, 1, H]."""
    bounds = [
        graph.constant(f"slice.{name}", np.array([at])) for name, at in (("from", 0), ("to", 1), ("axis", 1))
    ]
    return graph.node("Slice", [value, *bounds], f"{value}.first")


def _tokens(graph: _Graph, hidden: str, _pooling: str) -> int:
    graph.node("Identity", [hidden], "tokens")
    return graph.config.hidden


def _sentence(graph: _Graph, hidden: str, pooling: str) -> int:
    axis = graph.constant("axis", np.array([1]))
    if pooling == "mean":  # a sum does: what follows normalises it
        mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
        hidden = graph.node("MatMul", [graph.node("Unsqueeze", [mask, axis], "mask.row"), hidden], "sum")
    pooled = graph.node("Squeeze", [hidden, axis], "pooled")
    graph.node("LpNormalization", [pooled], "sentence", axis=1, p=2)
    return graph.config.hidden


def _head(graph: _Graph, hidden: str, _pooling: str) -> int:
    width = graph.config.hidden
    state = graph.node("Squeeze", [hidden, graph.constant("axis", np.array([1]))], "state")
    if graph.has("head.dense.weight"):
        state = graph.node("Tanh", [_gemm(graph, state, "head.dense", width, width)], "head.tanh")
    classes = graph.rows("head.bias")
    _gemm(graph, state, "head", classes, width)
    return classes


def _gemm(graph: _Graph, value: str, name: str, out: int, inner: int) -> str:
    inputs = [value, graph.weight(f"{name}.weight", out, inner), graph.weight(f"{name}.bias", out)]
    return graph.node("Gemm", inputs, name, transB=1)


_OUTPUTS = {"sentence": _sentence, "tokens": _tokens, "head": _head}
"""What is made of the last hidden states; each ends in a value of its own name and returns its width."""
