"""History tables, mirrors and documents: their schemas and partitions, and how Spark folds changes into them."""
