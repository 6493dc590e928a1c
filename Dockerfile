# txloom as one image: Airflow with Spark, Delta Lake's jars and the project. Scheduler, API server, dag processor,
# triggerer and workers run the same image with other commands (docker run txloom scheduler, ... api-server, ...).
#
#     docker build -t txloom .
FROM apache/airflow:3.3.2

USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s "$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")" /opt/java \
    && install --directory --owner=airflow --group=0 --mode=0775 /opt/txloom /lake /inbox
ENV JAVA_HOME=/opt/java
USER airflow
WORKDIR /opt/txloom

# The pins are one tested set with Airflow's own among them; they replace what the base image resolved.
COPY --chown=airflow:0 requirements.txt ./
RUN pip install --no-cache-dir --requirement requirements.txt

# Jars come before code: they change less often.
COPY --chown=airflow:0 scripts/machine.sh scripts/ivy.sh scripts/fetch_jars.sh scripts/
COPY --chown=airflow:0 scripts/ivy scripts/ivy
RUN scripts/fetch_jars.sh "$(command -v python)" /opt/txloom/jars && rm -rf .state

COPY --chown=airflow:0 pyproject.toml LICENSE ./
COPY --chown=airflow:0 include include
RUN pip install --no-cache-dir --no-deps --editable .
COPY --chown=airflow:0 jobs jobs
COPY --chown=airflow:0 plugins plugins
COPY --chown=airflow:0 dags dags

ENV TXLOOM_JARS=/opt/txloom/jars \
    TXLOOM_PIPELINES=/opt/txloom/include/pipelines \
    TXLOOM_WAREHOUSE=/lake \
    TXLOOM_INBOX=/inbox \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/txloom/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/txloom/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    GX_ANALYTICS_ENABLED=False
