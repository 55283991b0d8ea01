"""Alerts, dashboard and documents on one side, the metrics that are really exposed on the other."""
