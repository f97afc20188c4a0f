"""Operators on shards of an image on several devices of one process, and the copies between these devices."""
