"""When is a source transaction whole? The rule, without Spark, Delta or a clock of its own."""
