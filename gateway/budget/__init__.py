"""The error budget at work: what was learnt per tenant and route, shared by all workers through the database."""

from gateway.budget.book import Budget, BudgetPlan
from gateway.budget.ledger import Ledger
from gateway.budget.report import BudgetLine, budget_report

__all__ = ["Budget", "BudgetLine", "BudgetPlan", "Ledger", "budget_report"]
