"""What the code asks of TensorRT exists in every version it is written for, by NVIDIA's own bindings.

`tests/tensorrt_api/snapshot.json` holds the names of the bindings of 10.3 (JetPack 6), 10.16 and 11.4
(JetPack 7.2). The code is read by syntax tree: types come from annotations and from what the bindings
say their methods return.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tensorrt_api"))

from names import BINDINGS, load_snapshot  # noqa: E402
from real import UnreachableError, read_real  # noqa: E402

FILES = ("tensorrt_api.py", "tensorrt_build.py")
SNAPSHOT = load_snapshot()
MODULE = ""
"""The snapshot's name for the module itself."""


@dataclass
class Uses:
    """What a source uses of TensorRT: "class.member" -> lines, and how many of them are guarded."""

    found: dict[str, list[int]] = field(default_factory=dict)
    guarded: set[str] = field(default_factory=set)

    def missing(self, version: str) -> list[str]:
        """Returns the uses that a version lacks and that no `hasattr` guards."""
        names = SNAPSHOT[version]
        return [
            f"{use} (line {lines[0]})"
            for use, lines in self.found.items()
            if use not in self.guarded and use.rpartition(".")[2] not in names[use.rpartition(".")[0]]
        ]


class Reader(ast.NodeVisitor):
    """Infers which expressions are TensorRT's, and collects the attributes taken of them."""

    def __init__(self) -> None:
        self.uses = Uses()
        self._fields: dict[str, str] = {}
        self._scopes: list[dict[str, str]] = [{}]
        self._guards: list[set[tuple[str, str]]] = [set()]

    def read(self, source: str) -> Uses:
        tree = ast.parse(source)
        for node in ast.walk(tree):  # fields first: a method may stand before `__init__`
            target = node.target if isinstance(node, ast.AnnAssign) else None
            if isinstance(target, ast.Attribute) and isinstance(node, ast.AnnAssign):
                self._fields[target.attr] = self._annotated(node.annotation)
            if isinstance(node, ast.FunctionDef):
                self._scopes[0][node.name] = self._annotated(node.returns)
        self.visit(tree)
        return self.uses

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = [*node.args.args, *node.args.kwonlyargs]
        self._scopes.append({item.arg: self._annotated(item.annotation) for item in arguments})
        self._guards.append(set(_guards_in(node)) | self._guards[-1])
        for statement in node.body:
            self.visit(statement)
        self._scopes.pop()
        self._guards.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            self.visit(base)
            owner = self._type(base)
            if owner in SNAPSHOT["10.3"]:
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and _overrides(item.name, owner):
                        self._use(owner, item.name, item)
        for item in node.body:
            self.visit(item)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._scopes[-1][node.target.id] = self._annotated(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs += zip(target.elts, node.value.elts, strict=True)
            else:
                pairs.append((target, node.value))
        for target, value in pairs:
            self.visit(value)
            if isinstance(target, ast.Name):
                self._scopes[-1][target.id] = self._type(value)
            else:
                self.visit(target)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        owner = self._type(node.value)
        if owner in SNAPSHOT["10.3"] and not node.attr.startswith("__"):
            self._use(owner, node.attr, node)
            if (ast.unparse(node.value), node.attr) in self._guards[-1]:
                self.uses.guarded.add(f"{owner}.{node.attr}")

    def _use(self, owner: str, name: str, node: ast.AST) -> None:
        self.uses.found.setdefault(f"{owner}.{name}", []).append(getattr(node, "lineno", 0))

    def _type(self, node: ast.expr) -> str:
        """The class of an expression, `MODULE` for the module, "?" for what is not TensorRT's."""
        if isinstance(node, ast.Name):
            if node.id in ("nv", "trt", "module"):
                return MODULE
            return next((scope[node.id] for scope in reversed(self._scopes) if node.id in scope), "?")
        if isinstance(node, ast.Call):
            return self._type(node.func)
        if isinstance(node, ast.Attribute):
            if node.attr == "module":
                return MODULE
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                return self._fields.get(node.attr, "?")
            owner = self._type(node.value)
            if owner == MODULE:
                return node.attr
            held = {names.get(owner, {}).get(node.attr, "") for names in SNAPSHOT.values()} - {""}
            return held.pop() if len(held) == 1 else "?"
        return "?"

    def _annotated(self, node: ast.expr | None) -> str:
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Attribute) and ast.unparse(part).startswith("trt."):
                return ast.unparse(part).removeprefix("trt.")
        return "?"


def _guards_in(node: ast.FunctionDef) -> list[tuple[str, str]]:
    return [
        (ast.unparse(call.args[0]), call.args[1].value)
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "hasattr"
        and isinstance(call.args[1], ast.Constant)
    ]


def _overrides(name: str, owner: str) -> bool:
    """Methods of our own in a class derived from TensorRT's: the public ones that TensorRT would call."""
    return not name.startswith("_") and (owner, name) not in {("ILogger", "why")}


def uses_of_the_code() -> dict[str, Uses]:
    folder = ROOT / "edge_sdk" / "engine"
    return {name: Reader().read((folder / name).read_text(encoding="utf-8")) for name in FILES}


@pytest.mark.parametrize("version", BINDINGS)
@pytest.mark.parametrize("file", FILES)
def test_every_name_that_the_code_uses_is_in_every_version(file: str, version: str) -> None:
    assert uses_of_the_code()[file].missing(version) == []


def test_the_reader_sees_what_the_code_does() -> None:
    uses = uses_of_the_code()
    assert {
        "Runtime.deserialize_cuda_engine",
        "ICudaEngine.get_tensor_name",
        "ICudaEngine.create_engine_inspector",
        "DataType.name",
        "EngineInspector.get_engine_information",
        "LayerInformationFormat.JSON",
        "IExecutionContext.execute_async_v3",
        "IExecutionContext.set_tensor_address",
        "IExecutionContext.set_input_shape",
        "IExecutionContext.infer_shapes",
        "ILogger.log",
        ".Runtime",
    } <= set(uses["tensorrt_api.py"].found)
    assert {
        "Builder.create_network",
        "NetworkDefinitionCreationFlag.STRONGLY_TYPED",
        "OnnxParser.parse",
        "ParserError.desc",
        "IBuilderConfig.set_memory_pool_limit",
        "MemoryPoolType.WORKSPACE",
        "Builder.build_serialized_network",
        "ITimingCache.serialize",
        "IProgressMonitor.step_complete",
        "ITensor.shape",
    } <= set(uses["tensorrt_build.py"].found)


WRONG = {
    "engine.get_binding_name(0)": ("ICudaEngine.get_binding_name", ["10.3", "10.16", "11.4"]),
    "engine.device_memory_size": ("ICudaEngine.device_memory_size", ["11.4"]),
    "engine.create_execution_context().execute_async_v2(1)": (
        "IExecutionContext.execute_async_v2",
        ["10.3", "10.16", "11.4"],
    ),
    "trt.BuilderFlag.FP16": ("BuilderFlag.FP16", ["11.4"]),
    "trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH": (
        "NetworkDefinitionCreationFlag.EXPLICIT_BATCH",
        ["11.4"],
    ),
}


@pytest.mark.parametrize("line", WRONG)
def test_a_name_that_some_version_lacks_is_found(line: str) -> None:
    use, versions = WRONG[line]
    uses = Reader().read(f"def f(engine: trt.ICudaEngine):\n    {line}\n")
    assert [version for version in BINDINGS if uses.missing(version) == [f"{use} (line 2)"]] == versions


def test_a_guarded_name_may_be_missing() -> None:
    guarded = "def f(engine: trt.ICudaEngine):\n    if hasattr(engine, 'device_memory_size'):\n        "
    assert Reader().read(f"{guarded}engine.device_memory_size\n").missing("11.4") == []
    assert Reader().read(f"{guarded}engine.get_binding_name\n").missing("11.4") != []


@pytest.mark.parametrize("version", BINDINGS)
def test_the_snapshot_is_what_nvidias_bindings_say(version: str, tmp_path: Path) -> None:
    try:
        real = read_real(version, tmp_path)
    except UnreachableError as error:
        pytest.skip(f"needs NVIDIA's bindings: {error}")
    assert real == SNAPSHOT[version]
