"""Reading images of rows, before and after a change, as typed columns."""
