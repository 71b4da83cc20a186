"""The plugin ``tool-limit``: a request may bring so many tools and no more."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Refusal, RequestFacts


class ToolLimitSettings(BaseModel):
    """The table ``[plugins.tool-limit]``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    most: int = Field(16, ge=0, description="tools that a request may have")


class ToolLimitPlugin(Plugin):
    """Counts tool schemas."""

    api_version = 1
    Settings = ToolLimitSettings

    @hookimpl
    def refuse_request(self, request: RequestFacts) -> Refusal | None:
        count, most = len(request.body.get("tools") or ()), self.settings.most
        if count <= most:
            return None
        return Refusal(
            name="too_many_tools",
            reason=f"the request has {count} tools, and this server takes {most}",
            hint="send only the tools that this step needs",
            param="tools",
        )
