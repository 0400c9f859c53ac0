"""The request side: what a backend is told, and how its output is to be read."""

from .decide import plan
from .prompts import start_state
from .values import Constraint, Plan

__all__ = ["Constraint", "Plan", "plan", "start_state"]
