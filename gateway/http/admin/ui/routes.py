"""The dashboard's pages and its navigation, as tables."""

from gateway.http.admin.caller import Role
from gateway.http.admin.ui.asked import PageRoute
from gateway.http.admin.ui.pages import (
    audit,
    doctor,
    engine,
    entries,
    erasures,
    explain,
    feed,
    ledger,
    overview,
    purge,
    register,
    routing,
    tenants,
    tokens,
    versions,
)

Link = tuple[str, str, str, Role, bool]
"""Name, path below `/admin/ui`, area, role it takes, and whether it is only for callers bound to no tenants."""

NAVIGATION: tuple[tuple[str, tuple[Link, ...]], ...] = (
    (
        "Observe",
        (
            ("Overview", "", "overview", "reader", False),
            ("Live requests", "/requests", "requests", "reader", False),
            ("Ledger", "/ledger", "ledger", "reader", False),
            ("Prefix doctor", "/doctor", "doctor", "reader", False),
            ("Engine", "/engine", "engine", "reader", True),
        ),
    ),
    (
        "Cache",
        (
            ("Entries", "/entries", "entries", "reader", False),
            ("Explain", "/explain", "explain", "operator", False),
            ("Purge", "/purge", "purge", "operator", False),
            ("Versions", "/versions", "versions", "reader", False),
        ),
    ),
    (
        "Administer",
        (
            ("Tenants and keys", "/tenants", "tenants", "reader", False),
            ("Erasures", "/erasures", "erasures", "admin", False),
            ("Routes and modes", "/routes", "routes", "reader", False),
            ("Tokens", "/tokens", "tokens", "admin", True),
            ("Audit", "/audit", "audit", "reader", False),
        ),
    ),
)

ROUTES: tuple[PageRoute, ...] = (
    PageRoute("GET", "/", overview.overview, "overview"),
    PageRoute("GET", "/overview", overview.overview_body, "overview"),
    PageRoute("GET", "/requests", feed.feed, "requests"),
    PageRoute("GET", "/requests/rows", feed.feed_rows, "requests"),
    PageRoute("GET", "/ledger", ledger.ledger, "ledger"),
    PageRoute("GET", "/doctor", doctor.doctor, "doctor"),
    PageRoute("GET", "/engine", engine.engine, "engine"),
    PageRoute("GET", "/engine/body", engine.engine_body, "engine"),
    PageRoute("GET", "/engine/prefixes", engine.prefixes, "engine"),
    PageRoute("GET", "/entries", entries.entries, "entries"),
    PageRoute("GET", "/entries/{tenant}/{entry}", entries.entry, "entries"),
    PageRoute("POST", "/entries/{tenant}/{entry}/delete", entries.delete, "entries", "operator"),
    PageRoute("GET", "/explain", explain.ask_explain, "explain", "operator"),
    PageRoute("POST", "/explain", explain.explain, "explain", "operator"),
    PageRoute("GET", "/purge", purge.ask_purge, "purge", "operator"),
    PageRoute("POST", "/purge/preview", purge.preview, "purge", "operator"),
    PageRoute("POST", "/purge", purge.do_purge, "purge", "operator"),
    PageRoute("GET", "/versions", versions.versions, "versions"),
    PageRoute("POST", "/versions", register.register, "versions", "operator"),
    PageRoute("GET", "/versions/new", register.ask_register, "versions", "operator"),
    PageRoute("POST", "/versions/new", register.preview, "versions", "operator"),
    PageRoute("GET", "/versions/{version}", versions.impact, "versions"),
    PageRoute("POST", "/versions/{version}/retire", versions.retire, "versions", "operator"),
    PageRoute("GET", "/tenants", tenants.tenants, "tenants"),
    PageRoute("POST", "/tenants", tenants.create_tenant, "tenants", "admin"),
    PageRoute("GET", "/tenants/{tenant}", tenants.tenant, "tenants"),
    PageRoute("POST", "/tenants/{tenant}/disable", tenants.disable, "tenants", "admin"),
    PageRoute("POST", "/tenants/{tenant}/limits", tenants.set_limits, "tenants", "admin"),
    PageRoute("POST", "/tenants/{tenant}/keys", tenants.new_key, "tenants", "admin"),
    PageRoute("POST", "/tenants/{tenant}/keys/{key}/revoke", tenants.revoke_key, "tenants", "admin"),
    PageRoute("GET", "/erasures", erasures.erasures, "erasures", "admin"),
    PageRoute("POST", "/erasures", erasures.begin, "erasures", "admin"),
    PageRoute("POST", "/erasures/confirm", erasures.confirm, "erasures", "admin"),
    PageRoute("GET", "/erasures/confirm", erasures.erasures, "erasures", "admin"),
    PageRoute("GET", "/erasures/{erasure}", erasures.erasure, "erasures", "admin"),
    PageRoute("GET", "/erasures/{erasure}/body", erasures.erasure_body, "erasures", "admin"),
    PageRoute("GET", "/routes", routing.routes, "routes"),
    PageRoute("POST", "/routes/mode", routing.set_mode, "routes", "operator"),
    PageRoute("GET", "/tokens", tokens.tokens, "tokens", "admin", everywhere=True),
    PageRoute("POST", "/tokens", tokens.new_token, "tokens", "admin", everywhere=True),
    PageRoute("POST", "/tokens/{token}/revoke", tokens.revoke_token, "tokens", "admin", everywhere=True),
    PageRoute("GET", "/audit", audit.audit, "audit"),
)

SAID = {
    "entry_deleted": "The entry was deleted. It is not served any more, on any worker.",
    "tenant_created": "The tenant was made. Give it a key, so that it can ask.",
    "tenant_disabled": "The tenant was shut out: its keys open nothing now.",
    "key_revoked": "The key was revoked. It opens nothing any more, on any worker.",
    "token_revoked": "The token was revoked, and its sessions have ended.",
    "version_registered": "The version was registered. What it replaced has gone, with all that stands on it.",
    "version_known": "The version was registered like this already: nothing was changed.",
    "version_retired": "The version was retired. What stands on it is not served any more.",
    "mode_set": "The mode was set. Every worker follows it.",
    "limits_set": "The limits were set.",
    "signed_out": "You have signed out.",
}
"""What is said on top of a page after something was done."""
