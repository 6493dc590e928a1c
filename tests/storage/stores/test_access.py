"""One connection in the words of each library, and what is refused."""

import json

import pytest

from txloom.errors import ConfigurationError
from txloom.storage.stores import access
from txloom.storage.stores.access import arrow_options, delta_options, hadoop_settings, scheme_of

SECRET = "sEcReT"


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> "Connected":
    return Connected(monkeypatch)


class Connected:
    """Lets the lake's connection be one with some fields."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._environment = monkeypatch

    def __call__(self, login: str = "", password: str = "", **extra: str) -> None:
        self._environment.setenv("TXLOOM_WAREHOUSE_CONNECTION", "lake")
        text = json.dumps({"conn_type": "aws", "login": login, "password": password, "extra": extra})
        self._environment.setenv("AIRFLOW_CONN_LAKE", text)


def hadoop(uri: str) -> dict[str, str]:
    return {name.removeprefix("spark.hadoop."): value for name, value in hadoop_settings(uri).items()}


def test_without_a_connection_each_library_looks_for_credentials_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TXLOOM_WAREHOUSE_CONNECTION", raising=False)
    assert delta_options("s3://lake/a") == {"aws_conditional_put": "etag"}
    assert arrow_options("s3://lake/a") == {}
    assert not {name for name in hadoop("s3://lake/a") if "key" in name or "credentials" in name}


def test_an_s3_connection_is_the_same_for_all_libraries(connected: Connected) -> None:
    connected("id", SECRET, endpoint_url="http://store:9000", region_name="eu-1", aws_session_token="token")
    assert delta_options("s3://lake/a") == {
        "aws_access_key_id": "id",
        "aws_secret_access_key": SECRET,
        "aws_session_token": "token",
        "aws_region": "eu-1",
        "aws_endpoint_url": "http://store:9000",
        "aws_allow_http": "true",
        "aws_conditional_put": "etag",
    }
    assert arrow_options("s3://lake/a") == {
        "access_key": "id",
        "secret_key": SECRET,
        "session_token": "token",
        "region": "eu-1",
        "scheme": "http",
        "endpoint_override": "store:9000",
    }
    given = hadoop("s3://lake/a")
    assert given["fs.s3a.access.key"] == "id"
    assert given["fs.s3a.secret.key"] == SECRET
    assert given["fs.s3a.session.token"] == "token"
    assert given["fs.s3a.aws.credentials.provider"].endswith(".TemporaryAWSCredentialsProvider")
    assert given["fs.s3a.endpoint"] == "http://store:9000"
    assert given["fs.s3a.endpoint.region"] == "eu-1"
    assert given["fs.s3a.connection.ssl.enabled"] == "false"


def test_sparks_commits_on_s3_are_conditional(connected: Connected) -> None:
    connected("id", SECRET)
    given = hadoop("s3://lake/a")
    assert given["fs.s3a.create.conditional.enabled"] == "true"
    assert given["spark.delta.logStore.s3.impl"] == "txloom.ConditionalLogStore"


LAKE = "abfss://lake@account.dfs.core.windows.net/a"


def test_an_azure_account_key(connected: Connected) -> None:
    connected("", SECRET)
    assert delta_options(LAKE) == {"azure_storage_account_name": "account", "azure_storage_account_key": SECRET}
    assert arrow_options(LAKE) == {"account_name": "account", "account_key": SECRET}
    assert hadoop(LAKE) == {"fs.azure.account.key.account.dfs.core.windows.net": SECRET}


def test_an_azure_application(connected: Connected) -> None:
    connected("app", SECRET, tenant_id="tenant")
    assert delta_options(LAKE) == {
        "azure_storage_account_name": "account",
        "azure_tenant_id": "tenant",
        "azure_client_id": "app",
        "azure_client_secret": SECRET,
    }
    assert arrow_options(LAKE) == {
        "account_name": "account",
        "tenant_id": "tenant",
        "client_id": "app",
        "client_secret": SECRET,
    }
    given = hadoop(LAKE)
    host = "account.dfs.core.windows.net"
    assert given[f"fs.azure.account.oauth2.client.secret.{host}"] == SECRET
    assert given[f"fs.azure.account.oauth2.client.id.{host}"] == "app"
    assert given[f"fs.azure.account.auth.type.{host}"] == "OAuth"


def test_an_azure_signature(connected: Connected) -> None:
    connected(sas_token=SECRET)
    assert delta_options(LAKE) == {"azure_storage_account_name": "account", "azure_storage_sas_token": SECRET}
    assert arrow_options(LAKE) == {"account_name": "account", "sas_token": SECRET}
    assert hadoop(LAKE)["fs.azure.sas.fixed.token.account.dfs.core.windows.net"] == SECRET


def test_google_is_reached_by_the_credentials_of_the_environment(connected: Connected) -> None:
    connected("id", SECRET)
    assert delta_options("gs://lake/a") is None
    assert SECRET not in str(hadoop("gs://lake/a"))


@pytest.mark.parametrize("uri", ["/lake", "file:///lake", "hdfs://name:8020/lake"])
def test_what_needs_no_credentials_gets_none(connected: Connected, uri: str) -> None:
    connected("id", SECRET)
    assert delta_options(uri) is None
    assert hadoop_settings(uri) == {}


@pytest.mark.parametrize(
    ("uri", "hint"),
    [
        ("s3a://lake/a", "write s3://"),
        ("gcs://lake/a", "write gs://"),
        ("ftp://user:pass@lake/a", "it can be a path"),
    ],
)
def test_a_scheme_that_not_all_libraries_know_is_refused(uri: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint) as refused:
        scheme_of(uri)
    assert "pass" not in str(refused.value).replace("path", "")


def test_an_azure_uri_without_a_container_is_refused(connected: Connected) -> None:
    connected("", SECRET)
    with pytest.raises(ConfigurationError, match="write abfss://CONTAINER@ACCOUNT"):
        delta_options("abfss://account.dfs.core.windows.net/a")


def test_a_connection_that_is_not_there_is_named_and_no_secret_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLOOM_WAREHOUSE_CONNECTION", "lake")
    monkeypatch.delenv("AIRFLOW_CONN_LAKE", raising=False)
    with pytest.raises(ConfigurationError, match="TXLOOM_WAREHOUSE_CONNECTION: expected the connection lake"):
        access.access()
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", f"{{{SECRET}")
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_LAKE to hold a connection") as refused:
        access.access()
    assert SECRET not in str(refused.value)


def test_a_role_that_one_library_cannot_take_on_is_refused(connected: Connected) -> None:
    connected("id", SECRET, role_arn="arn:aws:iam::1:role/lake")
    for options in (delta_options, arrow_options, hadoop_settings):
        with pytest.raises(ConfigurationError, match="has role_arn, which delta-rs cannot take on"):
            options("s3://lake/a")
