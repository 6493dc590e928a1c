"""A site's own rules of who may read which DAG, as sites have them: roles as ever, and for some people fewer DAGs."""

import os
from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

FEWER = "TEST_READS_ONLY"
"""Names in the environment: PERSON=DAG,DAG;PERSON=..."""


class SiteAuthManager(SimpleAuthManager):
    """Airflow's simple one, which lets everybody read every DAG, narrowed to what the environment says."""

    def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        """Tell whether somebody may do that with a DAG."""
        allowed_by_user = dict(each.split("=") for each in os.environ.get(FEWER, "").split(";") if each)
        allowed = allowed_by_user.get(user.username)
        if (
            allowed is not None
            and details is not None
            and details.id is not None
            and details.id not in allowed.split(",")
        ):
            return False
        return bool(super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details))
