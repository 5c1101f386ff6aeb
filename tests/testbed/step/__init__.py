"""`make demo-step`: one step of the load, four autoscalers, and how long each takes."""
