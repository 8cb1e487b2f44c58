"""What a cluster needs around a run, made from code: dashboards, alert rules, manifests. Pure: text out.

Nothing here talks to a cluster, to Grafana or to Prometheus; `agentmem deploy render` writes the files, and
what lies in `deploy/` is what it writes.
"""
