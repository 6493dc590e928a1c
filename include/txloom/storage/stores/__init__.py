"""The stores that hold lakes and sources: folders, S3, HDFS, Azure and Google, for all three libraries alike."""
