"""Why an object has the replicas that it has, in words: from its spec and status alone, for commands and the page."""
