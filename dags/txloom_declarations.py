"""Shows declarations that are refused: an airflow import error of this file lists them; every other dag still runs."""

from txloom.errors import ConfigurationError
from txloom.orchestration.pipelines import refused

if wrong := refused():
    raise ConfigurationError("\n".join(str(error) for error in wrong))
