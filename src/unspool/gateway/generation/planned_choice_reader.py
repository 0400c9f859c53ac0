"""Reader that turns the upstream's deltas for one choice into events, according to the request's plan."""

from __future__ import annotations

from ...planning import ContentParsers, Plan
from ...wire import ChoiceReader


class Reader(ChoiceReader):
    """Reader for one choice, configured by the request's plan."""

    def __init__(
        self, plan: Plan, *, ids: bool = False, content_parsers: ContentParsers | None = None
    ) -> None:
        """Create a reader.

        :param ids: parse token ids instead of text.
        :param content_parsers: factory for content parsers, shared by all choices of the request.
        """
        super().__init__(
            plan.parser(ids=ids),
            content_parsers or ContentParsers(plan),
            include_reasoning=plan.include_reasoning,
            ids=ids,
        )
        self.plan = plan
