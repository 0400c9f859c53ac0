"""Reader that turns the upstream's deltas for one choice of a planned request into events."""

from __future__ import annotations

from ...planning import ContentParsers, Plan
from ...wire import ChoiceReader


class Reader(ChoiceReader):
    """Reader for one choice, with the plan of its request."""

    def __init__(
        self, plan: Plan, *, ids: bool = False, content_parsers: ContentParsers | None = None
    ) -> None:
        """Create a reader.

        :param ids: parse token ids instead of text.
        :param content_parsers: factory that all choices of a request share.
        """
        super().__init__(
            plan.parser(ids=ids),
            content_parsers or ContentParsers(plan),
            include_reasoning=plan.include_reasoning,
            ids=ids,
        )
        self.plan = plan
