"""`make demo`: two equal Deployments under one recorded load, one scaled by the upstream HPA, one by a CronHPA."""
