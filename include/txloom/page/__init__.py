"""The page in Airflow's UI, rendered on the server: the read model's plain values in, HTML out; no Airflow, no Spark.

`plugins/txloom_plugin.py` gives it routes and decides who may see what. No text of a source is taken as HTML: templates
escape it, and invisible characters are shown by their code point. The pages work without a script; the one that they
load follows Airflow's theme, opens Airflow's pages outside of the frame, and updates ages.

    pages.py       one function for each page     links.py              addresses
    requests.py    parameters of a request        formatting.py         values as people read them
    chart.py       lag and throughput as SVG      rendering.py          templates and static files
    turns.py       which task has a pool's slot   declaration_cache.py  the declared pipelines
"""
