"""Acquisitions: what a query would be worth, and the search for the best one."""
