"""What the operator sees when a set is ready."""

import json
from pathlib import Path

from gateway.settings import Settings

_QUESTION = "What is the capital of France?"


def banner(settings: Settings, url: str, new_key: str | None, working_folder: Path) -> str:
    """The lines to show; with the new key in the example, so that it works as it stands.

    Args:
        settings: of the running set.
        url: where it listens.
        new_key: made at this start, or None.
        working_folder: paths inside it are shown relative to it.
    """
    home = settings.home
    shown_home = home.relative_to(working_folder) if home.is_relative_to(working_folder) else home
    kept = f", with the key in {shown_home}/admin_key" if (home / "admin_key").is_file() else ""
    lines = [
        f"Lamina is ready: {url}/v1",
        "  Try it, twice; the second answer comes from the cache:",
        example(settings, url, new_key),
        "",
        f"  Dashboard: {url}/admin/ui{kept}",
        f"  State is kept in {shown_home}; Ctrl-C stops.",
    ]
    return "\n".join(lines)


def example(settings: Settings, url: str, key: str | None) -> str:
    """A request to paste, indented; the variable LAMINA_KEY where there is no key to show."""
    model = settings.models[0].name if settings.models and not settings.engine.enabled else settings.engine.name
    body = json.dumps({"model": model, "temperature": 0, "messages": [{"role": "user", "content": _QUESTION}]})
    lines = [
        f"    curl -i {url}/v1/chat/completions \\",
        f'      -H "Authorization: Bearer {key or "$LAMINA_KEY"}" \\',
        "      -H 'Content-Type: application/json' \\",
        f"      -d '{body}'",
    ]
    return "\n".join(lines)
