"""How a store is reached: one URI for all libraries, and one Airflow connection in the words of each of them.

A lake lies in a folder, or at `s3://BUCKET/...`, `hdfs://HOST:PORT/...`, `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/...`
or `gs://BUCKET/...`. TXLOOM_WAREHOUSE_CONNECTION names the Airflow connection with the credentials; without it each
library looks for credentials as it does by itself: variables of the environment, a role of the machine.

The values are secret: no message shows one.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from txloom.config.problems import Unfit
from txloom.config.yaml import connections
from txloom.config.yaml.connections import LAKE
from txloom.errors import ConfigurationError

FILE, S3, HDFS, AZURE, GOOGLE = "file", "s3", "hdfs", "abfss", "gs"
OTHER_NAMES = {"s3a": S3, "s3n": S3, "abfs": AZURE, "wasbs": AZURE, "wasb": AZURE, "gcs": GOOGLE, "webhdfs": HDFS}
"""Schemes that some libraries know and others do not, with the one that all know."""
OF_S3 = ("aws_session_token", "region_name", "endpoint_url", "role_arn")
OF_AZURE = ("tenant_id", "sas_token")


@dataclass(frozen=True)
class Access:
    """A connection as stores read it.

    Args:
        connection: its id, for messages.
        login: a key's id, or the id of an application.
        password: the secret that belongs to it.
        extra: what else the connection says.
    """

    connection: str = ""
    login: str = ""
    password: str = ""
    extra: Mapping[str, Any] | None = None

    def more(self, name: str) -> str:
        """Return a field of the extra; empty where it is not set."""
        return str((self.extra or {}).get(name) or "")


def scheme_of(uri: str) -> str:
    """Return the scheme of a path or URI, FILE for a path.

    Raises ConfigurationError for a scheme that not all libraries know.

    >>> scheme_of("/lake"), scheme_of("s3://bucket/lake")
    ('file', 's3')
    """
    if "://" not in uri:
        return FILE
    scheme = uri.partition("://")[0]
    if scheme in (FILE, S3, HDFS, AZURE, GOOGLE):
        return scheme
    known = OTHER_NAMES.get(scheme)
    hint = f"write {known}://" if known else f"it can be a path, or begin with {S3}, {HDFS}, {AZURE} or {GOOGLE}"
    raise ConfigurationError(f"{_shown(uri)}: txloom reads no {scheme}://: {hint}")


def access(environment: Mapping[str, str] | None = None) -> Access:
    """Return the connection that LAKE names; an empty one where it names none.

    environment: the variables to look in; None: those of this process.

    Raises ConfigurationError where the connection is not set or cannot be read.
    """
    variables = os.environ if environment is None else environment
    name = variables.get(LAKE, "")
    if not name:
        return Access()
    try:
        fields = connections.fields(name, variables)
    except Unfit as error:
        raise ConfigurationError(f"{LAKE}: {error}") from None
    login, password = (str(fields.get(each) or "") for each in ("login", "password"))
    return Access(name, login, password, fields["extra"])


def delta_options(uri: str) -> dict[str, str] | None:
    """Return the `storage_options` with which delta-rs opens a table; None for those that it finds by itself."""
    scheme = scheme_of(uri)
    if scheme in (FILE, HDFS, GOOGLE):
        return None
    given = access()
    if scheme == AZURE:
        named = {
            "azure_storage_account_name": _account(uri),
            "azure_tenant_id": given.more("tenant_id"),
            "azure_storage_sas_token": given.more("sas_token"),
        }
        kinds = ("azure_client_id", "azure_client_secret")
        names = kinds if given.more("tenant_id") else ("", "azure_storage_account_key")
    else:
        endpoint = given.more("endpoint_url")
        named = {
            "aws_session_token": given.more("aws_session_token"),
            "aws_region": given.more("region_name"),
            "aws_endpoint_url": endpoint,
            "aws_allow_http": "true" if endpoint.startswith("http://") else "",
            # Two writers of one version are told apart by the store; it is the default of delta-rs, and may not change.
            "aws_conditional_put": "etag",
        }
        _refuse_role(given)
        names = ("aws_access_key_id", "aws_secret_access_key")
    named |= dict(zip(names, (given.login, given.password), strict=True))
    return {name: value for name, value in named.items() if name and value}


def hadoop_settings(uri: str) -> dict[str, str]:
    """Return the settings of Spark's session with which its JVM reads and writes a store, by name."""
    scheme = scheme_of(uri)
    if scheme == S3:
        given = access()
        _refuse_role(given)
        return {f"spark.hadoop.{name}": value for name, value in _s3a(given).items() if value} | {LOG_STORE: LOG}
    if scheme == AZURE:
        return {f"spark.hadoop.{name}": value for name, value in _abfs(uri, access()).items() if value}
    if scheme == GOOGLE:
        return {
            "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
            "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT",
        }
    return {}


LOG_STORE = "spark.delta.logStore.s3.impl"
LOG = "txloom.ConditionalLogStore"
"""It creates a log entry only where there is none; the source is include/java/txloom/ConditionalLogStore.java."""


def _s3a(given: Access) -> dict[str, str]:
    endpoint = given.more("endpoint_url")
    kind = "TemporaryAWSCredentialsProvider" if given.more("aws_session_token") else "SimpleAWSCredentialsProvider"
    return {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
        "fs.s3a.create.conditional.enabled": "true",
        "fs.s3a.path.style.access": "true" if endpoint else "",
        "fs.s3a.connection.ssl.enabled": "false" if endpoint.startswith("http://") else "",
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": given.more("region_name"),
        "fs.s3a.access.key": given.login,
        "fs.s3a.secret.key": given.password,
        "fs.s3a.session.token": given.more("aws_session_token"),
        "fs.s3a.aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{kind}" if given.login else "",
    }


def _abfs(uri: str, given: Access) -> dict[str, str]:
    host, tenant = _host(uri), given.more("tenant_id")
    if tenant:
        return {
            f"fs.azure.account.auth.type.{host}": "OAuth",
            f"fs.azure.account.oauth.provider.type.{host}": (
                "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
            ),
            f"fs.azure.account.oauth2.client.endpoint.{host}": (
                f"https://login.microsoftonline.com/{tenant}/oauth2/token"
            ),
            f"fs.azure.account.oauth2.client.id.{host}": given.login,
            f"fs.azure.account.oauth2.client.secret.{host}": given.password,
        }
    if token := given.more("sas_token"):
        return {f"fs.azure.account.auth.type.{host}": "SAS", f"fs.azure.sas.fixed.token.{host}": token}
    return {f"fs.azure.account.key.{host}": given.password}


def arrow_options(uri: str) -> dict[str, Any]:
    """Return the arguments of Arrow's file system for a store on S3 or Azure."""
    given = access()
    if scheme_of(uri) == AZURE:
        tenant, token = given.more("tenant_id"), given.more("sas_token")
        named = {"account_name": _account(uri), "tenant_id": tenant, "sas_token": token}
        if tenant:
            named |= {"client_id": given.login, "client_secret": given.password}
        elif not token:
            named |= {"account_key": given.password}
        return {name: value for name, value in named.items() if value}
    _refuse_role(given)
    endpoint = urlsplit(given.more("endpoint_url"))
    named = {
        "access_key": given.login,
        "secret_key": given.password,
        "session_token": given.more("aws_session_token"),
        "region": given.more("region_name"),
        "scheme": endpoint.scheme,
        "endpoint_override": endpoint.netloc,
    }
    return {name: value for name, value in named.items() if value}


def _refuse_role(given: Access) -> None:
    """Raise ConfigurationError for a connection whose role one of the libraries could not take."""
    if given.more("role_arn"):
        raise ConfigurationError(
            f"{LAKE}: the connection {given.connection} has role_arn, which delta-rs cannot take on; let the "
            "machine or the pod have the role, and leave the connection out"
        )


def _host(uri: str) -> str:
    parts: SplitResult = urlsplit(uri)
    if not parts.hostname or not parts.username:
        raise ConfigurationError(f"{_shown(uri)}: write {AZURE}://CONTAINER@ACCOUNT.dfs.core.windows.net/...")
    return parts.hostname


def _account(uri: str) -> str:
    return _host(uri).partition(".")[0]


def _shown(uri: str) -> str:
    """Return a URI without what stands before its host, which can be a password."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
