"""The job's folder in the checkpoint volume, which is there before the script asks for it."""

import logging
from collections.abc import Mapping
from pathlib import Path

from rtj_api import names

_log = logging.getLogger(__name__)


def make_folder(environment: Mapping[str, str]) -> None:
    """Make it where a volume is used; a refusal is logged, since the script may want another."""
    folder = environment.get(names.ENV_CHECKPOINT_DIR)
    if not folder:
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning(
            "%s=%s cannot be made: %s; let the pod's user write to the volume",
            names.ENV_CHECKPOINT_DIR,
            folder,
            error,
        )
