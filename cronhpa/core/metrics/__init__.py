"""The HPA's arithmetic: pods and samples become counts."""
