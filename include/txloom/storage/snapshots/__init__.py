"""Dated extracts of whole tables, and the transactions that were made from them."""
