"""From a policy's `model` setting to a directory that serves."""
