"""The ten incidents of lesson 14: logs with a cause to find, symptoms, questions, hints and worked solutions."""
