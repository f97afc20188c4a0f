"""Operators on shards of an image that lie on several devices of one process, and the copies between these devices."""
