"""The text that Kafka's own tools print, by version."""
