"""A named reason not to start, or not to serve a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not served, and the way out.

    Returned by ``refuse_start``, ``refuse_request`` and ``Admission.never``; what else refuses a start raises
    ``Refused(Refusal(...))``.

    Attributes:
        name: a stable snake_case code, for example ``context_length_exceeded``; the ``code`` of the HTTP error. Neither
            it nor ``reason`` is empty.
        reason: one sentence without a full stop that names the flag, field or file and the limit.
        hint: one sentence without a full stop that says what to do instead.
        status: the HTTP status of a refused request, 400 to 599; not read for a refused start.
        param: the request field or flag at fault, when there is one.
    """

    name: str
    reason: str
    hint: str
    status: int = 400
    param: str | None = None

    @property
    def sentence(self) -> str:
        """Reason and hint in one sentence, as the client of a refused request reads it."""
        return f"{self.reason}; {self.hint}" if self.hint else self.reason

    def __str__(self) -> str:
        return f"{self.reason}\nhint: {self.hint}" if self.hint else self.reason
