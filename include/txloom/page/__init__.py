"""The page in Airflow's UI, rendered on the server: the read model's plain values in, HTML out; no Airflow, no Spark.

`plugins/txloom_plugin.py` gives it routes and decides who may see what. Every text of a source is text here: templates
escape, and signs that nobody can see are shown by their number. The pages need no script; the one there is follows
Airflow's theme, opens Airflow's own pages outside of the frame, and lets ages grow.

    pages.py       one function for each page     links.py              addresses
    requests.py    what a request says            formatting.py         values as people read them
    chart.py       lag and throughput as SVG      rendering.py          templates and static files
    turns.py       which task has a pool's slot   declaration_cache.py  what is declared
"""
