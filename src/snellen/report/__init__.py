"""Reports: a run, or several side by side, as one HTML file that needs no network."""

from snellen.engine.answer_view import AnswerView, answer_view
from snellen.report.page import render, write_report
from snellen.report.view import Limits, PairedView, RunView

__all__ = ["AnswerView", "Limits", "PairedView", "RunView", "answer_view", "render", "write_report"]
