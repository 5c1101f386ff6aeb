"""What each workload of a cluster does today, and what schedules, a forecast or other settings would change."""
