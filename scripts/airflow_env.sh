# Settings of the Airflow that `make up` and `make demo` start; sourced by scripts, everything lies in
# .state (or TXLOOM_STATE). Only this machine reaches it, unless TXLOOM_HOST names another address to listen on.
# Where $real is set it is that of `make up-real`, which has a folder of its own.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
port=${TXLOOM_PORT:-8080}
state=${TXLOOM_STATE:-$root/.state}
export AIRFLOW_HOME="$state${real:+/real}/airflow"
mkdir -p "$AIRFLOW_HOME/log"
random() { head -c "$1" /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
[ -s "$AIRFLOW_HOME/secret" ] || (umask 077 && random 32 >"$AIRFLOW_HOME/secret")
# Whoever is logged in as admin runs what they like on this machine: no password is the same on two of them.
new_password=""
if ! [ -s "$AIRFLOW_HOME/passwords.json" ] || grep -q '"admin": *"admin"' "$AIRFLOW_HOME/passwords.json"; then
  new_password=$(random 18)
  rm -f "$AIRFLOW_HOME/passwords.json"
  (umask 077 && echo "{\"admin\": \"$new_password\"}" >"$AIRFLOW_HOME/passwords.json")
fi
export AIRFLOW__CORE__DAGS_FOLDER="$root/dags"
export AIRFLOW__CORE__PLUGINS_FOLDER="$root/plugins"
export AIRFLOW__CORE__LOAD_EXAMPLES=False
export AIRFLOW__CORE__EXECUTOR=LocalExecutor
export AIRFLOW__CORE__PARALLELISM=4
export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=admin:admin
export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE="$AIRFLOW_HOME/passwords.json"
export AIRFLOW__CORE__EXECUTION_API_SERVER_URL="http://localhost:$port/execution/"
export AIRFLOW__API__HOST="${TXLOOM_HOST:-127.0.0.1}"
export AIRFLOW__API__PORT="$port"
export AIRFLOW__API__BASE_URL="http://localhost:$port"
export AIRFLOW__API__WORKERS=1
export AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT=30
export AIRFLOW__API__SECRET_KEY="$(cat "$AIRFLOW_HOME/secret")"
export AIRFLOW__API_AUTH__JWT_SECRET="$(cat "$AIRFLOW_HOME/secret")"
export AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL=60
export AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False
export AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[*]"}'
export TXLOOM_JARS="${TXLOOM_JARS:-$root/jars}"
# Where nobody names an inbox or a warehouse, pipeline `orders` has a source that lives (`txloom trial`): a cycle each
# minute, and what is wrong is seen while one watches.
[ "${TXLOOM_INBOX:-}" != "$state/trial/inbox" ] || unset TXLOOM_INBOX TXLOOM_WAREHOUSE
if [ -n "${real:-}" ]; then
  trial="$state/real"
  export TXLOOM_PIPELINES="$trial/pipelines"
else
  trial=$([ -n "${TXLOOM_INBOX:-}${TXLOOM_WAREHOUSE:-}" ] || echo "$state/trial")
fi
if [ -n "$trial" ]; then
  export TXLOOM_INBOX="$trial/inbox"
  export TXLOOM_WAREHOUSE="$trial/warehouse"
  export ORDERS_SCHEDULE="${ORDERS_SCHEDULE:-* * * * *}"
  export ORDERS_PATIENCE="${ORDERS_PATIENCE:-3m}"
  export ORDERS_STUCK_AFTER="${ORDERS_STUCK_AFTER:-1m}"
  export ORDERS_SOURCE_QUIET="${ORDERS_SOURCE_QUIET:-2m}"
fi
export TXLOOM_INBOX="${TXLOOM_INBOX:-$state/inbox}"
export TXLOOM_WAREHOUSE="${TXLOOM_WAREHOUSE:-$state/warehouse}"
export PATH="$root/.venv/bin:$PATH"
export PYSPARK_PYTHON="$root/.venv/bin/python"
export SPARK_HOME="$(dirname "$("$PYSPARK_PYTHON" -c 'import importlib.util as u; print(u.find_spec("pyspark").origin)')")"
