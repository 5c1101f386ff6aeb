"""The parts of the CronHPA resource as pydantic models; cronhpa.api.schema puts them together."""
