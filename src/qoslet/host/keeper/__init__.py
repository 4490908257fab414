"""The keeper: the process that parents containers and outlives the agent."""
