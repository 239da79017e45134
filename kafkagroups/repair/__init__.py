"""Repairs: edit a copy of a log, rescue the groups of a dead cluster, pull the topic of a live one."""
