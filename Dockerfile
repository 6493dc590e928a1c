# txloom as one image: Airflow with Spark, Delta Lake's jars and the project. Scheduler, API server, dag processor,
# triggerer, workers and Spark's executors on Kubernetes run the same image with other commands:
#
#     docker build -t txloom .
#     docker run txloom scheduler
#
# Debian and not Airflow's own image: what is installed are the pins alone, and nothing that they replace. Give BASE a
# digest (debian:bookworm-slim@sha256:...) where builds must repeat to the byte.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Debian keeps only the newest version of a package: one that is pinned is gone after its next security update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
       ca-certificates openjdk-17-jre-headless procps python3.11 python3.11-venv tini util-linux \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /opt/java \
    && useradd --uid 50000 --gid 0 --create-home --home-dir /home/airflow airflow \
    && install --directory --owner=50000 --group=0 --mode=0775 /opt/txloom /opt/airflow /lake /inbox
ENV JAVA_HOME=/opt/java \
    AIRFLOW_HOME=/opt/airflow \
    PATH=/opt/txloom/.venv/bin:/usr/local/bin:/usr/bin:/bin
USER 50000:0
WORKDIR /opt/txloom

FROM base AS packages
COPY --chown=50000:0 requirements.txt ./
RUN python3.11 -m venv .venv \
    && pip install --no-cache-dir --requirement requirements.txt

FROM packages AS jars
COPY --chown=50000:0 scripts/machine.sh scripts/ivy.sh scripts/fetch_jars.sh scripts/
COPY --chown=50000:0 scripts/ivy scripts/ivy
RUN scripts/fetch_jars.sh /opt/txloom/.venv/bin/python /opt/txloom/jars \
    && scripts/fetch_jars.sh /opt/txloom/.venv/bin/python /opt/txloom/jars/s3 s3
COPY --chown=50000:0 scripts/compile_java.py scripts/
COPY --chown=50000:0 include/java include/java
RUN python scripts/compile_java.py /opt/txloom/jars

FROM base AS final
COPY --from=packages --chown=50000:0 /opt/txloom/.venv .venv
COPY --from=jars --chown=50000:0 /opt/txloom/jars jars
COPY --chown=50000:0 pyproject.toml LICENSE ./
COPY --chown=50000:0 include include
RUN pip install --no-cache-dir --no-deps --editable .
COPY --chown=50000:0 scripts/archive_classes.sh scripts/exercise_spark.py scripts/
RUN scripts/archive_classes.sh /opt/txloom/.venv/bin/python /opt/txloom/spark.jsa && rm -rf .state
COPY --chown=50000:0 jobs jobs
COPY --chown=50000:0 plugins plugins
COPY --chown=50000:0 dags dags

ENV TXLOOM_JARS=/opt/txloom/jars \
    TXLOOM_CLASS_ARCHIVE=/opt/txloom/spark.jsa \
    TXLOOM_PIPELINES=/opt/txloom/include/pipelines \
    TXLOOM_WAREHOUSE=/lake \
    TXLOOM_INBOX=/inbox \
    PYSPARK_PYTHON=/opt/txloom/.venv/bin/python \
    SPARK_HOME=/opt/txloom/.venv/lib/python3.11/site-packages/pyspark \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/txloom/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/txloom/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    GX_ANALYTICS_ENABLED=False
HEALTHCHECK --interval=30s --timeout=20s --start-period=120s CMD ["/opt/txloom/include/bin/healthy"]
ENTRYPOINT ["tini", "--", "/opt/txloom/include/bin/start"]
CMD ["standalone"]
