"""maintain_tables: maintenance of a pipeline's tables.

    spark-submit jobs/maintain_tables.py --pipeline orders --warehouse /lake --task TASK

TASK is one of clean_history, expire, optimize, vacuum, statistics, register. clean_history removes rows from mirrors'
histories that later ones supersede and that are older than maintenance.history.keep; without that it does nothing.
expire removes messages of released events, rows on runs and replaced checkpoints that are as old as the declaration
says. optimize joins small files and orders them by the declared columns; vacuum removes what no version within the
declared retention needs and skips a table of which the newest published cut or a reader still needs older files;
statistics completes data-skipping statistics and records figures in `table_statistics`; register lets the catalog of
targets.catalog know the tables, and does nothing without that. Never run it beside a merge of the same pipeline.

Exit codes: 0 done; 2 declaration or task wrong; 14 some histories could not be cleaned; 1 unforeseen. The last line of
the log holds the counts.
"""

import sys

from txloom.config.names import MAINTENANCE_TASKS
from txloom.steps.maintenance.maintain_tables import maintain_tables
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    flags = parser("maintain_tables", __doc__)
    flags.add_argument("--task", required=True, choices=MAINTENANCE_TASKS)
    choices = lambda given: {"task": given.task}  # noqa: E731
    sys.exit(run(Job("maintain_tables", maintain_tables, flags, choices=choices)))
