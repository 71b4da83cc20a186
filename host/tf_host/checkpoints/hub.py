"""Checkpoints on the hub.

The small files come first, so that a model that is not served is refused before its weights are fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tf_plugins import Refused
from tf_plugins.types import Progress, Refusal

_FACTS = ("*.json", "*.jinja", "tokenizer.model", "*.tiktoken", "*.txt")
_WEIGHTS = ("*.safetensors",)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A revision of a repository, its small files fetched.

    Attributes:
        repo: ``org/repo``.
        revision: the commit.
        folder: the local folder.
        flag: what named it, for messages.
    """

    repo: str
    revision: str
    folder: Path
    flag: str

    def fetch_weights(self, progress: Progress) -> None:
        """Fetch what is missing of the weights; ``Refused`` when the hub does not give them."""
        progress(f"fetching {self.repo}", 0.0)
        _fetch(self.repo, self.revision, _WEIGHTS, self.flag)
        progress(f"fetching {self.repo}", 1.0)


def describe(repo: str, revision: str | None, flag: str) -> Snapshot:
    """Fetch a repository's small files, or find them in the hub's cache; ``Refused``."""
    folder = _fetch(repo, revision, _FACTS, flag)
    return Snapshot(repo, folder.name, folder, flag)


def _fetch(repo: str, revision: str | None, patterns: Sequence[str], flag: str) -> Path:
    # Imported here: a local folder is served without the hub's client.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    at = f"{repo}@{revision}" if revision else repo
    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(patterns)))
    except GatedRepoError as error:
        raise _refused(f"{flag} names {at}, which the hub gives to accepted accounts only", _log_in(repo)) from error
    except RepositoryNotFoundError as error:
        hint = "check the spelling; for a private repository set HF_TOKEN; a local folder is written ./folder"
        raise _refused(f"{flag} names {at}, which is neither a folder here nor on the hub", hint) from error
    except RevisionNotFoundError as error:
        raise _refused(f"{flag} names {at}, and the hub has no such revision", f"leave out @{revision}") from error
    except LocalEntryNotFoundError as error:
        hint = "give a local folder, or start once with a network; HF_HUB_OFFLINE=1 keeps off the hub"
        reason = f"{flag} names {at}, which is no folder here, not in the hub's cache, and the hub cannot be reached"
        raise _refused(reason, hint) from error
    except (HfHubHTTPError, OSError) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        hint = "try again, or give a local folder"
        raise _refused(f"{flag} names {at}, and it cannot be fetched: {said}", hint) from error


def _log_in(repo: str) -> str:
    return f"accept its terms on its page, {repo}, and set HF_TOKEN"


def _refused(reason: str, hint: str) -> Refused:
    return Refused(Refusal("checkpoint_not_found", reason, hint, status=404))
