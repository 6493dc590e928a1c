"""audit: is the lake equal to the source?"""
