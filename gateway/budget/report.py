"""What an operator is told of the budgets."""

import msgspec

from gateway.budget.book import Budget
from gateway.budget.ledger import Ledger


class BudgetLine(msgspec.Struct, frozen=True):
    """One tenant's budget on one route, since its guard moved last.

    Attributes:
        budget: largest share of wrong answers in all requests.
        caution, reason, since: where the guard stands, why, and since when in seconds since the epoch.
        asked, would, served: requests that came to the layer, would-be hits, hits.
        audits, wrong: would-be hits compared with the model's answer, drawn at random; those that were wrong.
        wrong_of_hits, wrong_of_all: shares with their 95 % intervals, (share, low, high).
        labels: what the rule has learnt from, old ones counting less.
    """

    tenant_id: str
    route: str
    models: str
    budget: float
    caution: str
    reason: str
    since: float
    asked: int
    would: int
    served: int
    audits: float
    wrong: int
    wrong_of_hits: tuple[float, float, float]
    wrong_of_all: tuple[float, float, float]
    labels: float


def budget_report(budget: Budget) -> list[BudgetLine]:
    """Every budget this worker has met, as of its last poll; by tenant and route."""
    lines = [_line(ledger, budget.plan.budget(ledger.name.route)) for ledger in budget.ledgers if ledger.ready]
    return sorted(lines, key=lambda line: (line.tenant_id, line.route, line.models))


def _line(ledger: Ledger, budget: float) -> BudgetLine:
    state, figures = ledger.state, ledger.figures
    share = figures.share_of_hits
    return BudgetLine(
        ledger.name.tenant_id,
        ledger.name.route,
        ledger.name.models,
        budget,
        state.caution,
        state.reason,
        state.since,
        round(state.asked),
        round(state.would),
        round(state.served),
        round(figures.audits, 1),
        figures.wrong,
        (share, figures.of_hits.low, figures.of_hits.high),
        (share * figures.hit_share, figures.of_all.low, figures.of_all.high),
        round(ledger.labels, 1),
    )
