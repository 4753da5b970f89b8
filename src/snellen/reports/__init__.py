"""Reports: a run, or several side by side, as one HTML file that needs no network."""

from snellen.reports.render import render, write_report
from snellen.reports.views import PageLimits, PairedView, RunView
from snellen.runs.answer_view import AnswerView, answer_view

__all__ = ["AnswerView", "PageLimits", "PairedView", "RunView", "answer_view", "render", "write_report"]
